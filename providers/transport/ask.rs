//! Questions about a request that was sent before, and orders to stop it. Sent once, like everything; there is nothing
//! to prove about their own fate, since asking again harms nobody.

use super::{Response, Transport, classify};
use crate::adapter::Head;
use crate::failure::Failure;
use crate::lookup::LookupRequest;

impl Transport {
    /// Sends the question once and waits for the head of the answer, for as long as it takes.
    pub async fn ask(&self, request: &LookupRequest) -> Result<Response, Failure> {
        let address = format!("{}{}", self.base, request.path);
        let mut builder = self.client.request(request.method.clone(), address);
        if !request.body.is_empty() {
            builder = builder.body(request.body.clone());
        }
        for (name, value) in &request.headers {
            builder = builder.header(name.clone(), value.clone());
        }
        let request = builder.build().map_err(|error| classify::sending(&error))?;
        let response = self.client.execute(request).await.map_err(|error| classify::sending(&error))?;
        let head = Head { status: response.status(), headers: response.headers().clone() };
        Ok(Response { head, body: response })
    }
}
