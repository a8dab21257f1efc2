//! Error of one step of a longer piece of work, with its cause.

use std::error::Error;
use std::fmt;

/// A step that failed. `{}` names the step; `{:#}` adds the causes: `folder /run/hotdesk: Permission denied`.
#[derive(Debug)]
pub struct StepError {
    step: String,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl StepError {
    /// A failure without another error as its cause.
    pub fn new(what: impl Into<String>) -> Self {
        Self { step: what.into(), cause: None }
    }

    /// Returns the conversion of a cause into a failure of this step, for `map_err`.
    pub fn at<E: Into<Box<dyn Error + Send + Sync>>>(step: impl Into<String>) -> impl Fn(E) -> Self {
        let step = step.into();
        move |cause| Self { step: step.clone(), cause: Some(cause.into()) }
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.step)?;
        match &self.cause {
            // Causes of another type print their own causes or not, as their libraries decided.
            Some(cause) if f.alternate() => write!(f, ": {cause:#}"),
            Some(_) | None => Ok(()),
        }
    }
}

impl Error for StepError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref().map(|cause| &**cause as &(dyn Error + 'static))
    }
}

/// The text with all causes, for the place that prints it.
impl From<StepError> for String {
    fn from(error: StepError) -> Self {
        format!("{error:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_in_the_chain_and_in_the_alternate_form_only() {
        let inner = StepError::at("open /x")(std::io::Error::other("no"));
        let outer = StepError::at("start")(inner);
        assert_eq!((outer.to_string(), format!("{outer:#}")), ("start".into(), "start: open /x: no".into()));
        let source = outer.source().and_then(Error::source).map(ToString::to_string);
        assert_eq!(source.as_deref(), Some("no"));
        assert_eq!(String::from(StepError::new("alone")), "alone");
    }
}
