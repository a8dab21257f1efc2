//! Whose copy is it? Its objects' names say so: computer, generation and operation (threats.md T18).

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use hotdesk_base::ids::ComputerId;

/// What the objects of one copy are named by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The computer.
    pub computer: ComputerId,
    /// The boot that the saved memory ran since.
    pub generation: u64,
    /// The try at copying it.
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
        // Only what is written here is a label: a name that merely reads as one is somebody else's.
        if label.to_string() == text { Ok(label) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_its_own_text_and_nothing_else_is_one() {
        let label = Label { computer: ComputerId::random(), generation: 7, operation: Uuid::new_v4() };
        assert_eq!(label.to_string().parse(), Ok(label));
        let other = format!("{}/07-{}", label.computer, label.operation.simple());
        for bad in ["", "x/1-2", "../..", &label.computer.to_string(), &other] {
            assert_eq!(bad.parse::<Label>(), Err(()), "{bad}");
        }
    }
}
