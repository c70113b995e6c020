use crate::adapter::{Head,StreamDecoder};
use crate::failure::Failure;
pub(super) fn decoder(_head: &Head) -> Result<Box<dyn StreamDecoder>, Failure> { todo!() }
