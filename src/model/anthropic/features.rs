//! Features of Claude models, by their ids (Anthropic's documentation of computer use and of extended
//! thinking).

/// Features of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ModelFeatures {
    /// Version of the computer tool.
    pub computer: ComputerVersion,
    /// How thinking is asked for.
    pub thinking: ThinkingForm,
}

/// Version of the computer tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComputerVersion {
    /// `computer_20250124`.
    January2025,
    /// `computer_20251124`.
    November2025,
}

/// Form in which a request asks for thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThinkingForm {
    /// With a number of tokens.
    Budget,
    /// The model decides. It refuses a number of tokens.
    Adaptive,
}

impl ComputerVersion {
    /// Type of the tool.
    pub const fn tool(self) -> &'static str {
        match self {
            Self::January2025 => "computer_20250124",
            Self::November2025 => "computer_20251124",
        }
    }

    /// Whether the model may ask for a part of the screen at full scale, with the action `zoom`.
    pub const fn has_zoom(self) -> bool {
        match self {
            Self::January2025 => false,
            Self::November2025 => true,
        }
    }

    /// Value of `anthropic-beta` with which the tool is accepted.
    pub const fn beta(self) -> &'static str {
        match self {
            Self::January2025 => "computer-use-2025-01-24",
            Self::November2025 => "computer-use-2025-11-24",
        }
    }
}

/// Beginnings of the ids of models with the older computer tool.
const OLDER_COMPUTER: [&str; 9] = [
    "claude-3",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-opus-4-0",
    "claude-opus-4-2",
    "claude-opus-4-1",
    "claude-sonnet-4-5",
    "claude-haiku-4-5",
    "claude-haiku-3",
];
/// Beginnings of the ids of further models that think with a budget. Later models refuse one.
const BUDGET: [&str; 3] = ["claude-opus-4-5", "claude-opus-4-6", "claude-sonnet-4-6"];

/// Returns the features of a model. Unknown models are later ones.
pub(super) fn features(model: &str) -> ModelFeatures {
    let model = model.replace('.', "-");
    // Gateways put the vendor before the name.
    let name = model.find("claude-").map_or(model.as_str(), |at| &model[at..]);
    let is_in = |list: &[&str]| list.iter().any(|prefix| name.starts_with(prefix));
    let is_older = is_in(&OLDER_COMPUTER);
    ModelFeatures {
        computer: if is_older { ComputerVersion::January2025 } else { ComputerVersion::November2025 },
        thinking: if is_older || is_in(&BUDGET) { ThinkingForm::Budget } else { ThinkingForm::Adaptive },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_the_features_that_the_vendor_documents() {
        use {ComputerVersion::*, ThinkingForm::*};
        for (model, computer, thinking) in [
            ("claude-3-7-sonnet-20250219", January2025, Budget),
            ("claude-sonnet-4-20250514", January2025, Budget),
            ("claude-opus-4-20250514", January2025, Budget),
            ("claude-opus-4-1-20250805", January2025, Budget),
            ("claude-sonnet-4-5-20250929", January2025, Budget),
            ("claude-haiku-4-5-20251001", January2025, Budget),
            ("claude-opus-4-5-20251101", November2025, Budget),
            ("claude-opus-4-6", November2025, Budget),
            ("claude-sonnet-4-6", November2025, Budget),
            ("claude-sonnet-4.6", November2025, Budget),
            ("anthropic/claude-sonnet-4.5", January2025, Budget),
            ("claude-opus-4-7", November2025, Adaptive),
            ("claude-sonnet-5", November2025, Adaptive),
            ("claude-haiku-5-5", November2025, Adaptive),
            ("another", November2025, Adaptive),
        ] {
            assert_eq!(features(model), ModelFeatures { computer, thinking }, "{model}");
        }
    }
}
