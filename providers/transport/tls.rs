//! TLS by rustls with the ring provider, chosen explicitly: nothing depends on a process-wide default.
//!
//! The machine's own roots are trusted where it has some (a company's proxy or private CA works then), Mozilla's as
//! shipped with us otherwise (a bare container works too).

use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, RootCertStore};

/// Built once: reading the machine's roots takes milliseconds.
pub(super) fn config() -> &'static ClientConfig {
    static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
    CONFIG.get_or_init(build)
}

fn build() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (_, ignored) = roots.add_parsable_certificates(found.certs);
    if ignored > 0 {
        tracing::warn!(ignored, "some of the machine's root certificates cannot be read");
    }
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}
