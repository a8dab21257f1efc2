//! Names of a copy's objects: computer, generation and operation, T18 (docs/security.md).

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use hotdesk_base::ids::ComputerId;

/// Identity of one copy, written `COMPUTER/GENERATION-OPERATION`. It is the folder of the copy's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The computer.
    pub computer: ComputerId,
    /// Generation of the computer, a counter of its boots, whose memory is in the copy.
    pub generation: u64,
    /// Attempt at this copy.
    pub operation: Uuid,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}-{}", self.computer, self.generation, self.operation.simple())
    }
}

impl FromStr for Label {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (computer, copy) = text.split_once('/').ok_or(())?;
        let (generation, operation) = copy.split_once('-').ok_or(())?;
        let label = Self {
            computer: computer.parse().map_err(drop)?,
            generation: generation.parse().map_err(drop)?,
            operation: operation.parse().map_err(drop)?,
        };
        // Only the canonical form is a label. Another spelling, such as a leading zero, is a foreign object.
        if label.to_string() == text { Ok(label) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_of_a_label_parses() {
        let label = Label { computer: ComputerId::random(), generation: 7, operation: Uuid::new_v4() };
        assert_eq!(label.to_string().parse(), Ok(label));
        let other = format!("{}/07-{}", label.computer, label.operation.simple());
        for bad in ["", "x/1-2", "../..", &label.computer.to_string(), &other] {
            assert_eq!(bad.parse::<Label>(), Err(()), "{bad}");
        }
    }
}
