//! What an error of the HTTP client proves. Decided on types down the chain of sources, never on text.
//!
//! Two shapes prove that nothing was sent: an error of connecting, and hyper's "canceled", a connection found dead before
//! the first byte. Everything else is unknown: hyper promises nothing about its sources, so whatever it may show one day
//! blocks. `transport/http_stack` holds these shapes against a scripted server and fails when an update changes one.

use std::error::Error;
use std::io::ErrorKind;

use crate::adapter::Head;
use crate::failure::{Failure, Proof};

/// For errors of sending, before the head.
pub(super) fn sending(error: &reqwest::Error) -> Failure {
    if error.is_builder() {
        return not_built();
    }
    if error.is_connect() {
        return connecting(error);
    }
    // Before any other look: such an error may have a reset or an incomplete message as its own source.
    if find::<hyper::Error>(error).is_some_and(hyper::Error::is_canceled) {
        return Failure::new(Proof::NotSent, "connection_dead", "the connection closed before anything was sent");
    }
    let (reason, message) = lost(error);
    Failure::new(Proof::Unknown, reason, message)
}

/// The request never came to be.
pub(super) fn not_built() -> Failure {
    Failure::new(Proof::NotSent, "not_built", "the request could not be built: an address or a header is wrong")
}

/// For errors of reading the body. The request was sent and an answer begun: nothing here proves anything.
pub(super) fn reading(error: &reqwest::Error, head: &Head) -> Failure {
    let (reason, message) = if error.is_timeout() {
        ("timeout", "the answer stalled")
    } else {
        ("answer_cut", "the answer broke off before its end")
    };
    let failure = Failure::new(Proof::Unknown, reason, message);
    Failure { status: Some(head.status.as_u16()), ..failure }
}

fn connecting(error: &reqwest::Error) -> Failure {
    if error.is_timeout() {
        return Failure::new(Proof::NotSent, "connect_timeout", "no connection within connect_timeout");
    }
    if error.is_dns() {
        return Failure::new(Proof::NotSent, "dns", "the provider's host name could not be resolved");
    }
    if let Some(tls) = tls_error(error) {
        return Failure::new(Proof::NotSent, "tls", format!("the TLS handshake failed: {}", without_names(tls)));
    }
    match io_kind(error) {
        Some(ErrorKind::ConnectionRefused) => {
            Failure::new(Proof::NotSent, "connect_refused", "the provider's address refused the connection")
        }
        Some(kind) => Failure::new(Proof::NotSent, "connect_failed", format!("no connection: {kind}")),
        None => Failure::new(Proof::NotSent, "connect_failed", "no connection"),
    }
}

fn lost(error: &reqwest::Error) -> (&'static str, &'static str) {
    if error.is_timeout() {
        return ("timeout", "no answer in time");
    }
    if find::<hyper::Error>(error).is_some_and(hyper::Error::is_parse) {
        return ("garbage_answer", "what came back is no HTTP answer, or its head is too large");
    }
    ("connection_lost", "the connection was lost after the request, or a part of it, was sent")
}

/// The first error of type `E` down the chain.
pub(super) fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref::<E>() {
            return Some(found);
        }
        next = current.source();
    }
    None
}

fn io_kind(error: &reqwest::Error) -> Option<ErrorKind> {
    find::<std::io::Error>(error).map(std::io::Error::kind)
}

/// rustls' errors travel inside an `io::Error`, whose own chain skips its content.
pub(super) fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(tls) = find::<rustls::Error>(error) {
        return Some(tls);
    }
    let inner = find::<std::io::Error>(error)?.get_ref()?;
    let inner: &(dyn Error + 'static) = inner;
    inner.downcast_ref::<rustls::Error>().or_else(|| tls_error(inner))
}

/// rustls names the host in one of its errors; a failure's message names no address.
pub(super) fn without_names(error: &rustls::Error) -> String {
    use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
    match error {
        rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            "the certificate is not valid for this host name".to_owned()
        }
        other => other.to_string(),
    }
}
