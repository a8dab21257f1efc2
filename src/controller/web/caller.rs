//! Caller of a request, as extensions of the request.

use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::Caller;

/// Caller of a request, determined once by the layer [`identify`](crate::identity::auth::identify).
#[derive(Clone, Debug)]
pub struct IdentifiedCaller(pub Result<Caller>);

/// Name of a request's credential, for the audit log.
#[derive(Clone, Debug)]
pub struct ClientName(pub String);
