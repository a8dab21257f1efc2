//! Join tokens of a cluster, by each of which one machine becomes a member.
//!
//! Incus answers with the parts of a token in the data of an operation, which ends when the token is used or expires. The machine
//! that joins reads them as JSON in Base64 (`ClusterMemberJoinToken` in `shared/api/cluster.go` of Incus).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{MEMBERS_PATH, MemberRecord, ServerIdentity};
use crate::incus::client::Client;
use crate::{EngineError, EngineResult};
use hotdesk_base::secret::Secret;

const ADD: &str = "make a token for a new host";
const MEMBERS: &str = "/1.0/cluster/members";

/// A token with which one machine can join a cluster, once.
#[derive(Clone, Debug)]
pub struct JoinToken {
    /// The text for the machine.
    pub token: Secret,
    /// Time after which it is refused, ISO 8601.
    pub expires_at: String,
}

/// The parts of a token: names with capitals in an operation, with underscores in the token, in the order that Incus writes.
#[derive(Deserialize, Serialize)]
#[serde(rename_all(deserialize = "camelCase"))]
struct TokenParts {
    server_name: String,
    fingerprint: String,
    addresses: Vec<String>,
    secret: String,
    expires_at: String,
}

/// Makes a token for a member of this name. An earlier one for the name is revoked by the server.
pub(in crate::incus) async fn new_token(client: &Client, name: &str) -> EngineResult<JoinToken> {
    let server = ServerIdentity::read(client, ADD).await?;
    if !server.is_clustered {
        let detail = "the server is in no cluster; run `incus cluster enable NAME` on it first";
        return Err(EngineError::failed(ADD, detail));
    }
    // Incus checks the name only when the machine joins.
    let listed = client.get(MEMBERS_PATH).await.map_err(|error| error.at(ADD))?;
    let members: Vec<MemberRecord> =
        serde_json::from_value(listed).map_err(|error| EngineError::failed(ADD, error))?;
    if members.iter().any(|member| member.server_name == name) {
        let detail = format!("the cluster has a member {name}; choose another name");
        return Err(EngineError::failed(ADD, detail));
    }
    let begun = client.begin(MEMBERS, &json!({ "server_name": name })).await;
    let operation = begun.map_err(|error| error.at(ADD))?;
    read_token(operation["metadata"].clone())
}

/// The token of an operation's data. An error does not show the data, which has the secret.
fn read_token(data: Value) -> EngineResult<JoinToken> {
    let unknown = || EngineError::failed(ADD, "the answer of Incus has no token of a known form");
    let parts: TokenParts = serde_json::from_value(data).map_err(|_| unknown())?;
    let text = serde_json::to_vec(&parts).map_err(|_| unknown())?;
    Ok(JoinToken { token: Secret::new(STANDARD.encode(text)), expires_at: parts.expires_at })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Value {
        json!({
            "serverName": "m4", "secret": "hidden", "fingerprint": "digest", "expiresAt": "2026-01-02T03:04:05Z",
            "addresses": ["10.0.0.1:8443", "10.0.0.2:8443"],
        })
    }

    #[test]
    fn a_token_is_the_json_that_incus_reads_in_base64() {
        let made = read_token(data()).unwrap();
        let text = STANDARD.decode(made.token.reveal()).unwrap();
        let expected = concat!(
            r#"{"server_name":"m4","fingerprint":"digest","addresses":["10.0.0.1:8443","10.0.0.2:8443"],"#,
            r#""secret":"hidden","expires_at":"2026-01-02T03:04:05Z"}"#
        );
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert_eq!(made.expires_at, "2026-01-02T03:04:05Z");
        assert!(!format!("{made:?}").contains(made.token.reveal()));
    }

    #[test]
    fn an_answer_without_a_part_is_refused_without_its_secret() {
        for part in ["serverName", "secret", "fingerprint", "expiresAt", "addresses"] {
            let mut data = data();
            data.as_object_mut().unwrap().remove(part);
            let refused = format!("{:#}", read_token(data).unwrap_err());
            assert!(refused.contains("no token") && !refused.contains("hidden"), "{refused}");
        }
        let mut wrong = data();
        wrong["addresses"] = json!("hidden");
        let refused = format!("{:#}", read_token(wrong).unwrap_err());
        assert!(!refused.contains("hidden"), "{refused}");
    }
}
