//! From a name to the addresses that may be called. The HTTP client connects to what this returns and to nothing else,
//! so what was judged is what is called.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::is_public;

type Found = Pin<Box<dyn Future<Output = std::io::Result<Vec<SocketAddr>>> + Send>>;

/// Asks for a name's addresses.
pub(super) trait Lookup: Send + Sync {
    fn lookup(&self, host: String) -> Found;
}

/// The machine's own resolver.
pub(super) struct System;

impl Lookup for System {
    fn lookup(&self, host: String) -> Found {
        // The port is the URL's; 0 leaves it to the HTTP client.
        Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.collect()) })
    }
}

/// The name leads to no address that may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the host's name leads to a private or reserved address, which is not called")]
pub(super) struct Forbidden;

pub(super) struct Guarded {
    pub lookup: Arc<dyn Lookup>,
    pub allow_private: bool,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.lookup.lookup(name.as_str().to_owned());
        let allow_private = self.allow_private;
        Box::pin(async move {
            let mut addresses = found.await?;
            let any = !addresses.is_empty();
            addresses.retain(|address| allow_private || is_public(address.ip()));
            if any && addresses.is_empty() {
                return Err(Forbidden.into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
