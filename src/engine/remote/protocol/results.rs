//! Results of calls and their errors.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::remote::intern::interned;
use crate::{Capabilities, Endpoint, EngineError, EngineFindings, Finding, Observation, Offer, Shortage};
use hotdesk_domain::computer::isolation::Isolation;

/// An [`Offer`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::remote) struct OfferText {
    isolation: String,
    engine: String,
    capabilities: Capabilities,
}

impl From<&Offer> for OfferText {
    fn from(offer: &Offer) -> Self {
        let Offer { isolation, engine, capabilities } = *offer;
        Self { isolation: isolation.name().to_owned(), engine: engine.to_owned(), capabilities }
    }
}

impl TryFrom<OfferText> for Offer {
    type Error = EngineError;

    fn try_from(text: OfferText) -> Result<Self, EngineError> {
        let OfferText { isolation, engine, capabilities } = text;
        let Some(isolation) = Isolation::parse(&isolation) else {
            let detail =
                format!("it offers the unknown isolation {isolation:?}; restart controller and helper");
            return Err(EngineError::failed("understand the host helper", detail));
        };
        Ok(Self { isolation, engine: interned(&engine), capabilities })
    }
}

/// [`EngineFindings`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::remote) struct FindingsText {
    offer: OfferText,
    findings: Vec<Finding>,
    left_out: Vec<Cow<'static, str>>,
}

impl From<EngineFindings> for FindingsText {
    fn from(of: EngineFindings) -> Self {
        let EngineFindings { offer, findings, left_out } = of;
        Self { offer: (&offer).into(), findings, left_out }
    }
}

impl TryFrom<FindingsText> for EngineFindings {
    type Error = EngineError;

    fn try_from(text: FindingsText) -> Result<Self, EngineError> {
        let FindingsText { offer, findings, left_out } = text;
        Ok(Self { offer: offer.try_into()?, findings, left_out })
    }
}

/// An [`Endpoint`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::remote) enum EndpointText {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl From<Endpoint> for EndpointText {
    fn from(endpoint: Endpoint) -> Self {
        match endpoint {
            Endpoint::Unix(path) => Self::Unix(path),
            Endpoint::Tcp(address) => Self::Tcp(address),
        }
    }
}

impl From<EndpointText> for Endpoint {
    fn from(endpoint: EndpointText) -> Self {
        match endpoint {
            EndpointText::Unix(path) => Self::Unix(path),
            EndpointText::Tcp(address) => Self::Tcp(address),
        }
    }
}

/// An [`Observation`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::remote) enum ObservationText {
    Absent,
    Stopped,
    Suspended { generation: u64 },
    Running { generation: u64, endpoint: EndpointText, address: Option<IpAddr> },
}

impl From<Observation> for ObservationText {
    fn from(observation: Observation) -> Self {
        match observation {
            Observation::Absent => Self::Absent,
            Observation::Stopped => Self::Stopped,
            Observation::Suspended { generation } => Self::Suspended { generation },
            Observation::Running { generation, endpoint, address } => {
                Self::Running { generation, endpoint: endpoint.into(), address }
            }
        }
    }
}

impl From<ObservationText> for Observation {
    fn from(observation: ObservationText) -> Self {
        match observation {
            ObservationText::Absent => Self::Absent,
            ObservationText::Stopped => Self::Stopped,
            ObservationText::Suspended { generation } => Self::Suspended { generation },
            ObservationText::Running { generation, endpoint, address } => {
                Self::Running { generation, endpoint: endpoint.into(), address }
            }
        }
    }
}

/// An [`EngineError`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::remote) enum FailureText {
    NoCapacity(Shortage, String),
    Absent,
    MemoryInUse { used: u64, limit: u64 },
    Unsupported(String),
    Damaged(String),
    Step { step: String, detail: String },
}

impl From<EngineError> for FailureText {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::NoCapacity(short, detail) => Self::NoCapacity(short, detail),
            EngineError::Absent => Self::Absent,
            EngineError::MemoryInUse { used, limit } => Self::MemoryInUse { used, limit },
            EngineError::Unsupported(what) => Self::Unsupported(what.to_owned()),
            EngineError::Damaged(detail) => Self::Damaged(detail),
            EngineError::Failed { step, detail } => Self::Step { step: step.to_owned(), detail },
        }
    }
}

impl From<FailureText> for EngineError {
    fn from(failure: FailureText) -> Self {
        match failure {
            FailureText::NoCapacity(short, detail) => Self::NoCapacity(short, detail),
            FailureText::Absent => Self::Absent,
            FailureText::MemoryInUse { used, limit } => Self::MemoryInUse { used, limit },
            FailureText::Unsupported(what) => Self::Unsupported(interned(&what)),
            FailureText::Damaged(detail) => Self::Damaged(detail),
            FailureText::Step { step, detail } => Self::Failed { step: interned(&step), detail },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_survive_the_way_through_the_protocol() {
        let finding = Finding {
            what: "OCI runtime".into(),
            ok: false,
            optional: true,
            detail: "no runc".to_owned(),
            remedy: "install it".into(),
        };
        let offer =
            Offer { isolation: Isolation::Shared, engine: "container", capabilities: Capabilities::ALL };
        let sent = EngineFindings { offer, findings: vec![finding], left_out: vec!["disk tools".into()] };
        let text = serde_json::to_string(&FindingsText::from(sent.clone())).unwrap();
        let back = EngineFindings::try_from(serde_json::from_str::<FindingsText>(&text).unwrap()).unwrap();
        assert_eq!(back, sent);
    }

    #[test]
    fn every_error_survives_the_way_through_the_protocol() {
        for error in [
            EngineError::NoCapacity(Shortage::LoopDevices, "none".to_owned()),
            EngineError::Absent,
            EngineError::MemoryInUse { used: 2, limit: 1 },
            EngineError::Unsupported("save memory"),
            EngineError::Damaged("/x".to_owned()),
            EngineError::failed("mount the disk", "/x: no"),
        ] {
            let text = serde_json::to_string(&FailureText::from(error.clone())).unwrap();
            let back = EngineError::from(serde_json::from_str::<FailureText>(&text).unwrap());
            assert_eq!(format!("{back:?}"), format!("{error:?}"));
        }
    }
}
