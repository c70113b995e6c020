//! `interlock key`: API keys. A key is shown once, when it is made.

use clap::{Subcommand, ValueEnum};
use rand::TryRng;
use rand::rngs::SysRng;
use serde_json::{Value, json};

use super::open::{Opened, during};
use super::{Answer, Context, Failure, output};
use crate::domain::api_key::FreshKey;
use crate::domain::hex::hex;
use crate::domain::ids::{ApiKeyId, OwnerId};
use crate::domain::route::KeyPolicy;
use crate::http::view;
use crate::store::Store;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a key for an owner, and the owner if there is none of that name.
    Create {
        #[arg(long)]
        owner: String,
        /// What a request without an Idempotency-Key gets; default: what its route says.
        #[arg(long)]
        idempotency: Option<Policy>,
    },
    /// List all keys, without their secrets.
    List,
    /// End a key.
    Revoke { id: ApiKeyId },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Policy {
    Required,
    Generate,
}

pub async fn run(context: &Context, command: Command) -> Result<Answer, Failure> {
    during(context, async |opened| act(context, opened, command).await).await
}

async fn act(context: &Context, opened: &Opened, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::Create { owner, idempotency } => create(context, opened, owner.trim(), idempotency).await,
        Command::List => list(context, opened).await,
        Command::Revoke { id } => {
            if !opened.store.revoke_key(id).await? {
                return output::refuse(context, "not_found", &format!("there is no live key {id}"));
            }
            output::print(context, &json!({ "id": id, "revoked": true }), &["revoked"], vec![vec![id.to_string()]])?;
            Ok(Answer::Yes)
        }
    }
}

async fn create(
    context: &Context,
    opened: &Opened,
    owner: &str,
    idempotency: Option<Policy>,
) -> Result<Answer, Failure> {
    if owner.is_empty() || owner.len() > 200 || owner.chars().any(char::is_control) {
        return Err("--owner: give a name of 1 to 200 bytes without control characters".into());
    }
    let policy = idempotency.map(|policy| match policy {
        Policy::Required => KeyPolicy::Required,
        Policy::Generate => KeyPolicy::Generate,
    });
    let (_, id, key) = make(&opened.store, owner, policy).await?;
    let value = json!({ "id": id, "owner": owner, "key": key.reveal() });
    let row = vec![id.to_string(), owner.to_owned(), key.reveal().to_owned()];
    output::print(context, &value, &["id", "owner", "key (shown once)"], vec![row])?;
    Ok(Answer::Yes)
}

/// A fresh key for the owner of that name.
pub async fn make(
    store: &Store,
    owner: &str,
    policy: Option<KeyPolicy>,
) -> Result<(OwnerId, ApiKeyId, FreshKey), Failure> {
    let mut random = [0; 38];
    SysRng.try_fill_bytes(&mut random)?;
    let key = FreshKey::from_random(random);
    let id = ApiKeyId::fresh();
    let owner = store.ensure_owner(owner).await?;
    store.create_key(id, owner, &key.public_id, key.secret_sha256, policy).await?;
    Ok((owner, id, key))
}

/// 256 random bits as text, for an operator token.
pub fn random_token() -> Result<String, Failure> {
    let mut random = [0; 32];
    SysRng.try_fill_bytes(&mut random)?;
    Ok(hex(&random))
}

async fn list(context: &Context, opened: &Opened) -> Result<Answer, Failure> {
    let values: Vec<Value> = opened.store.list_keys().await?.iter().map(view::api_key).collect();
    let members = ["id", "owner", "public_id", "created_at", "revoked_at"];
    let rows = output::rows(&values, &members);
    output::print(context, &Value::Array(values), &members, rows)?;
    Ok(Answer::Yes)
}
