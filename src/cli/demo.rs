//! `interlock demo`: the whole story on a private Postgres with simulated providers; then it keeps serving.

use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::key;
use super::open::Opened;
use super::serve::{Serving, Signals};
use super::{Answer, Context, Failure};
use crate::config::Config;
use crate::local::demo::{self, Cast, Scene};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Exit after the story, with status 1 if a step did not hold.
    #[arg(long)]
    once: bool,
}

pub async fn run(_context: &Context, args: Args) -> Result<Answer, Failure> {
    let mut signals = Signals::new()?;
    let folder = demo::folder();
    std::fs::create_dir_all(&folder)?;
    // The database server may run as another user, and must be able to pass.
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755))?;
    let played = play(&folder, &args, &mut signals).await;
    if let Err(error) = std::fs::remove_dir_all(&folder) {
        tracing::warn!(folder = %folder.display(), %error, "the demo's folder could not be removed");
    }
    played
}

async fn play(folder: &Path, args: &Args, signals: &mut Signals) -> Result<Answer, Failure> {
    println!("Starting a private Postgres, three simulated providers and the gateway …");
    let cast = Cast::start().await?;
    let token = key::random_token()?;
    let token_file = folder.join("operator-token");
    write_secret(&token_file, &token)?;
    let config = Config::parse(&cast.settings(&folder.join("data"), &token_file), "the demo's settings")?;
    let opened = Opened::with(config).await?;
    let serving = Serving::start(&opened).await?;
    let (owner, _, api_key) = key::make(&opened.store, "demo", None).await?;
    let api_key = api_key.reveal().to_owned();
    let (application, operator) = (serving.application, serving.operator);
    let mut scene = Scene::new(application, operator, opened.store.clone(), owner, api_key.clone(), token.clone())?;
    let told = tokio::select! {
        told = demo::play(&mut scene, &cast) => Some(told?),
        () = signals.next() => None,
    };
    match told {
        Some(true) => println!("\nEvery step held."),
        Some(false) => println!("\nSOME STEPS DID NOT HOLD."),
        None => {}
    }
    if told.is_some() && !args.once {
        println!("\nThe gateway keeps serving until Ctrl-C. Try:\n");
        println!(
            "curl -s http://{application}/v1/chat/completions -H 'Authorization: Bearer {api_key}' -H 'Idempotency-Key: my-first-intent' -H 'Content-Type: application/json' -d '{{\"model\": \"support\", \"messages\": [{{\"role\": \"user\", \"content\": \"The app crashes when I log in.\"}}]}}'"
        );
        println!("\ncurl -s 'http://{operator}/admin/v1/races' -H 'Authorization: Bearer {token}'\n");
        println!("The console: http://{operator}/console (operator token: {token})");
        if let Some(url) = opened.psql_url() {
            println!("The database: psql '{url}'");
        }
        signals.next().await;
    }
    serving.stop(std::future::ready(())).await;
    opened.close().await?;
    Ok(if told == Some(false) { Answer::No } else { Answer::Yes })
}

fn write_secret(path: &Path, secret: &str) -> Result<(), Failure> {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(file.write_all(secret.as_bytes())?)
}
