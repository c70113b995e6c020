//! Opens what the settings name: the database, private or not, with its schema up to date.

use std::sync::Arc;

use providers::adapter::Secret;

use super::{Answer, Context, Failure};
use crate::config::Config;
use crate::local::postgres::PrivatePostgres;
use crate::store::Store;

/// The database's name in a private Postgres.
const DATABASE: &str = "interlock";

/// An open database. The private server, where there is one, is stopped by whoever leaves last.
#[derive(Debug)]
pub struct Opened {
    pub config: Arc<Config>,
    pub store: Store,
    postgres: Option<PrivatePostgres>,
}

impl Opened {
    /// The settings, and the database they name, migrated.
    pub async fn open(context: &Context) -> Result<Opened, Failure> {
        Opened::with(Config::load(context.config.as_deref())?).await
    }

    pub async fn with(config: Config) -> Result<Opened, Failure> {
        let (postgres, url) = match &config.database.url {
            Some(url) => (None, url.clone()),
            None => {
                let postgres = PrivatePostgres::start(&config.database.data_dir).await?;
                postgres.ensure_database(DATABASE).await?;
                let url = Secret::new(postgres.url(DATABASE));
                (Some(postgres), url)
            }
        };
        let store = Store::connect(&url, config.database.max_connections).await?;
        store.migrate().await?;
        Ok(Opened { config: Arc::new(config), store, postgres })
    }

    /// Where the private Postgres can be looked into.
    pub fn psql_url(&self) -> Option<String> {
        self.postgres.as_ref().map(|postgres| postgres.url(DATABASE))
    }

    pub async fn close(self) -> Result<(), Failure> {
        self.store.close().await;
        if let Some(postgres) = self.postgres {
            postgres.stop().await?;
        }
        Ok(())
    }
}

/// Opens the database, does this with it, and closes it whatever came of it.
pub async fn during(
    context: &Context,
    act: impl AsyncFnOnce(&Opened) -> Result<Answer, Failure>,
) -> Result<Answer, Failure> {
    let opened = Opened::open(context).await?;
    let answer = act(&opened).await;
    opened.close().await?;
    answer
}
