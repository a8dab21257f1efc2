//! Settings of a prompt socket as a request for a run.

use super::bounds::{
    DEFAULT_STEPS, DEFAULT_TOKENS, MAX_HELP_WAIT, MAX_PIXELS, MAX_STEPS, MAX_TOKENS, MIN_THINKING, bounded,
    control_wait, short, up_to,
};
use super::messages::user;
use super::{AllowedTools, RunLimits, RunRequest};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_model::conversation::Content;
use hotdesk_wire::chat::prompt::PromptConfig;

/// Least pixels of a picture: smaller ones cannot be read.
const MIN_PIXELS: u32 = 320 * 200;

impl RunRequest {
    /// Reads the settings of a prompt socket.
    ///
    /// # Errors
    /// `Invalid` for an empty instruction and for values out of range.
    pub fn from_prompt(config: PromptConfig) -> Result<Self> {
        if config.computer_id.trim().is_empty() {
            return Err(Error::invalid("computer_id is missing").code(ErrorCode::MissingComputerId));
        }
        if config.instruction.trim().is_empty() {
            return Err(Error::invalid("instruction is empty").code(ErrorCode::EmptyMessages));
        }
        let tokens = bounded("max_tokens", config.max_tokens, DEFAULT_TOKENS, MAX_TOKENS)?;
        let budget = config.thinking_budget.unwrap_or(MIN_THINKING).max(MIN_THINKING);
        let width = config.display_width.unwrap_or(0);
        let pixels = width.saturating_mul(config.display_height.unwrap_or(0));
        let help_seconds = up_to("help_wait_seconds", config.help_wait_seconds, MAX_HELP_WAIT)?;
        Ok(Self {
            computer: config.computer_id.trim().to_owned(),
            screen: short("screen", config.screen)?,
            thread: short("thread_id", config.thread_id)?,
            messages: vec![user(vec![Content::Text { text: config.instruction }])],
            instructions: config.system_prompt.unwrap_or_default(),
            model: short("model", config.model)?,
            key: None,
            limits: RunLimits {
                steps: bounded("max_iterations", config.max_iterations, DEFAULT_STEPS, MAX_STEPS)?,
                tokens,
                // A back end refuses a budget that leaves no tokens for the answer.
                thinking: (config.thinking_enabled == Some(true) && budget < tokens).then_some(budget),
                microcents: None,
                pixels: if pixels == 0 { MAX_PIXELS } else { pixels.clamp(MIN_PIXELS, MAX_PIXELS) },
                control_wait: control_wait(config.control_wait_seconds)?,
                help_seconds,
            },
            tools: AllowedTools { computer: true, bash: true, help: help_seconds > 0 },
            confirm: Vec::new(),
            is_approved: false,
            is_background: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_prompt_socket_has_the_bounds_of_its_client() {
        let config = |fields: Value| {
            let mut config = json!({"computer_id": "c", "instruction": "open it"});
            config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            RunRequest::from_prompt(serde_json::from_value(config).unwrap())
        };
        let client = config(json!({"display_width": 1024, "display_height": 768, "thinking_enabled": true,
            "thinking_budget": 1024, "max_tokens": 4096, "max_iterations": 100}))
        .unwrap();
        assert_eq!((client.limits.thinking, client.limits.pixels), (Some(1024), 1024 * 768));
        for (fields, thinking, pixels) in [
            (json!({}), None, MAX_PIXELS),
            (json!({"thinking_enabled": true, "max_tokens": 1000}), None, MAX_PIXELS),
            (json!({"thinking_enabled": true, "thinking_budget": 1}), Some(1024), MAX_PIXELS),
            (json!({"display_width": 9999, "display_height": 9999}), None, MAX_PIXELS),
            (json!({"display_width": 1, "display_height": 1}), None, 64_000),
        ] {
            let limits = config(fields.clone()).unwrap().limits;
            assert_eq!((limits.thinking, limits.pixels), (thinking, pixels), "{fields}");
        }
        assert!(
            config(json!({"instruction": " "})).is_err() && config(json!({"max_iterations": 251})).is_err()
        );
    }
}
