//! `interlock sim`: a simulated provider that misbehaves in one way, to point a suite at; its catalogue; the kill table.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::serve::Signals;
use super::{Answer, Context, Failure, output};
use crate::local::kill_table;
use crate::local::sim::{Expect, Misbehaviour, SimProvider, catalogue};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// An address of the loopback; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9001")]
    listen: SocketAddr,
    /// What it does wrong: a name of --list. Without it, nothing.
    #[arg(long, value_name = "NAME")]
    misbehave: Option<String>,
    /// Vary the answers as a sound provider's vary: the same seed gives the same answers.
    #[arg(long)]
    seed: Option<u64>,
    /// The models that exist; any other is refused. Without it, any is answered.
    #[arg(long, value_name = "NAME")]
    model: Vec<String>,
    /// The context window in tokens.
    #[arg(long, value_name = "TOKENS", default_value_t = 128_000)]
    window: usize,
    /// Print the catalogue of misbehaviours.
    #[arg(long, conflicts_with_all = ["misbehave", "seed", "kill_table"])]
    list: bool,
    /// Run the shipped suites against every misbehaviour, and print which check catches it. Takes a minute or more.
    #[arg(long, conflicts_with_all = ["misbehave", "seed"])]
    kill_table: bool,
}

pub async fn run(context: &Context, args: Args) -> Result<Answer, Failure> {
    if args.list {
        return list(context);
    }
    if args.kill_table {
        return table(context).await;
    }
    serve(context, args).await
}

fn list(context: &Context) -> Result<Answer, Failure> {
    let rows: Vec<Value> = catalogue().map(shown).collect();
    let members = ["name", "caught_by", "wires", "source", "does"];
    let cells = output::rows(&rows, &members);
    output::print(context, &Value::Array(rows), &members, cells)?;
    Ok(Answer::Yes)
}

fn shown(row: &Misbehaviour) -> Value {
    let (caught_by, reason) = match row.expect {
        Expect::Caught(kind) => (kind.as_str().to_owned(), None),
        Expect::Unseen(kind, why) => (format!("{kind} (unseen)"), Some(why)),
        Expect::Harmless => ("harmless".to_owned(), None),
    };
    let wires: Vec<&str> = row.wires.iter().map(|wire| wire.as_str()).collect();
    json!({
        "name": row.name, "does": row.does, "source": row.source, "caught_by": caught_by, "reason": reason,
        "wires": wires.join(" "),
    })
}

async fn table(context: &Context) -> Result<Answer, Failure> {
    let quiet = context.json;
    let told = |done: usize| {
        if !quiet && done.is_multiple_of(20) {
            eprintln!("{done} runs");
        }
    };
    let table = kill_table::measure(catalogue(), 4, &told).await?;
    let rows = table.rows().into_iter().map(Vec::from).collect();
    output::print(context, &table.to_json(), &["misbehaviour", "wire", "ought", "outcome", "by"], rows)?;
    if !context.json {
        println!("\n{}", table.summary());
    }
    Ok(if table.is_as_expected() { Answer::Yes } else { Answer::No })
}

async fn serve(context: &Context, args: Args) -> Result<Answer, Failure> {
    let row = match args.misbehave.as_deref() {
        None => None,
        Some(name) => Some(Misbehaviour::named(name).ok_or_else(|| unknown(name))?),
    };
    let mut signals = Signals::new()?;
    let sim =
        SimProvider::listen("sim", None, args.listen).await.map_err(|e| format!("--listen {}: {e}", args.listen))?;
    sim.set_context_window(args.window);
    if !args.model.is_empty() {
        sim.set_models(args.model);
    }
    if let Some(row) = row {
        sim.misbehave(row);
    }
    if let Some(seed) = args.seed {
        sim.set_noise(seed);
    }
    if context.json {
        println!("{}", json!({"base_url": sim.base_url(), "misbehaves": row.map(|row| row.name), "seed": args.seed}));
    } else {
        let what = row.map_or("sound".to_owned(), |row| format!("misbehaves: {} ({})", row.name, row.does));
        let at = sim.base_url();
        println!("{what}\nbase_url = \"{at}\"   # adapter = \"openai\" or \"anthropic\"; Ctrl-C ends it");
        println!("base_url = \"{at}beta\"   # adapter = \"gemini\"");
    }
    signals.next().await;
    Ok(Answer::Yes)
}

/// Names the nearest rows.
fn unknown(name: &str) -> String {
    let part = |row: &&&str| name.split('-').any(|word| word.len() > 2 && row.contains(word));
    let names: Vec<&str> = catalogue().map(|row| row.name).collect();
    let near: Vec<&str> = names.iter().filter(part).copied().take(8).collect();
    let near = if near.is_empty() { String::new() } else { format!("; near it: {}", near.join(", ")) };
    format!("--misbehave: there is no misbehaviour `{name}`{near}. `interlock sim --list` prints all of them")
}
