//! Signs a request as it leaves (AWS Signature Version 4, by Amazon's own crate): the signature holds the time and the
//! whole address, which an adapter does not know.

#[cfg(test)]
mod tests;

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use http::{HeaderName, HeaderValue};

use crate::adapter::{Secret, UpstreamRequest};
use crate::failure::{Failure, Proof};

/// In whose name requests are signed, and for which service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signing {
    /// As the provider's row names it: `bedrock`.
    pub service: &'static str,
    /// `eu-central-1`.
    pub region: String,
    pub access_key_id: Secret,
    pub secret_access_key: Secret,
    /// Of temporary credentials.
    pub session_token: Option<Secret>,
}

impl Signing {
    /// Adds the signature's headers. `address` is the request's whole address, encoded as it will be sent.
    pub(super) fn sign(&self, address: &str, request: &mut UpstreamRequest, now: SystemTime) -> Result<(), Failure> {
        let identity = Credentials::new(
            self.access_key_id.expose(),
            self.secret_access_key.expose(),
            self.session_token.as_ref().map(|token| token.expose().to_owned()),
            None,
            "settings",
        )
        .into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service)
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .map_err(|_| unsigned())?
            .into();
        let headers = request.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let body = SignableBody::Bytes(&request.body);
        let signable = SignableRequest::new("POST", address, headers, body).map_err(|_| unsigned())?;
        let (instructions, _signature) = sign(signable, &params).map_err(|_| unsigned())?.into_parts();
        let (headers, _query) = instructions.into_parts();
        for header in headers {
            let name = HeaderName::from_static(header.name());
            let mut value = HeaderValue::from_str(header.value()).map_err(|_| unsigned())?;
            value.set_sensitive(header.sensitive() || name == http::header::AUTHORIZATION);
            request.headers.push((name, value));
        }
        Ok(())
    }
}

fn unsigned() -> Failure {
    let why = "the request could not be signed: check region, access_key_id, secret_access_key and session_token";
    Failure::new(Proof::NotSent, "not_built", why)
}
