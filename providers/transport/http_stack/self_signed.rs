//! A TLS server whose certificate nobody signed.

use std::io::Read;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};

/// Made for this test alone; it opens nothing.
const CERTIFICATE: &str = "3082019930820140a00302010202146013d53a518fe18ad789422b4645226848f258e4300a06082a8648ce3d040302301931\
    17301506035504030c0e696e7465726c6f636b2d746573743020170d3236313133303230333833325a180f32313236313130\
    363230333833325a30193117301506035504030c0e696e7465726c6f636b2d746573743059301306072a8648ce3d02010608\
    2a8648ce3d030107034200044232a349ed727cd5226f56f49e255faf2a44cae9a41cbe6b9e7e43fdea88f9f5e2524383acf3\
    39de152577f78eae21eaaae91de3f1479d800d74e8eac229f712a3643062301d0603551d0e04160414e019984f89945f0ade\
    24821e490c9e6bc3352280301f0603551d23041830168014e019984f89945f0ade24821e490c9e6bc3352280300f0603551d\
    130101ff040530030101ff300f0603551d110408300687047f000001300a06082a8648ce3d040302034700304402202011a8\
    a07e80ededbfbdcd795270d8fa0b2be9278029da44855516adbef4143a0220017549e73ff57fd7b78ba1b61bdc9415e6409e\
    098dac414f91d16cf39ed53ba8";
const KEY: &str = "308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b020101042063379a5943aec4b6d4f4f33f1774\
    47b62fe5271eb955193ca33e67e0c15ecbeda144034200044232a349ed727cd5226f56f49e255faf2a44cae9a41cbe6b9e7e\
    43fdea88f9f5e2524383acf339de152577f78eae21eaaae91de3f1479d800d74e8eac229f712";

/// Serves one connection; ends with the bytes that it could read once the handshake was over.
pub fn start() -> (u16, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut connection = ServerConnection::new(Arc::new(config())).unwrap();
        let mut buffer = [0; 1024];
        Stream::new(&mut connection, &mut socket).read(&mut buffer).unwrap_or(0)
    };
    (port, std::thread::spawn(serve))
}

fn config() -> ServerConfig {
    let certificate = CertificateDer::from(super::from_hex(CERTIFICATE));
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(super::from_hex(KEY)));
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap()
}
