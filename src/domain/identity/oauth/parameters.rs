//! OAuth request parameters: each at most once, empty means absent, unknown ones are ignored (RFC 6749
//! section 3.1).

use super::refusal::{Code, Refusal};

/// Decoded parameters of a query or form, in their order.
#[derive(Clone, Debug, Default)]
pub struct Parameters(pub Vec<(String, String)>);

impl Parameters {
    /// Returns a parameter's value; `None` when it is absent or empty.
    ///
    /// # Errors
    /// `invalid_request` when it was sent more than once.
    pub fn one(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut values = self.0.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_str());
        let first = values.next();
        if values.next().is_some() {
            return Err(Code::InvalidRequest.because("a parameter was sent more than once"));
        }
        Ok(first.filter(|value| !value.is_empty()))
    }

    /// Returns the value of a required parameter.
    ///
    /// # Errors
    /// `invalid_request` with the text `missing` when it is absent; those of [`Parameters::one`].
    pub fn need(&self, name: &str, missing: &'static str) -> Result<&str, Refusal> {
        self.one(name)?.ok_or_else(|| Code::InvalidRequest.because(missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a50_each_parameter_counts_once_and_an_empty_one_not_at_all() {
        let pairs =
            [("a", "1"), ("b", ""), ("c", "1"), ("c", "1"), ("d", ""), ("d", "1"), ("x", "1"), ("x", "2")];
        let parameters = Parameters(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec());
        assert_eq!(parameters.one("a"), Ok(Some("1")));
        assert_eq!(parameters.one("b"), Ok(None));
        assert_eq!(parameters.one("none"), Ok(None));
        for repeated in ["c", "d"] {
            assert_eq!(parameters.one(repeated).unwrap_err().code, Code::InvalidRequest, "{repeated}");
        }
        assert_eq!(parameters.need("a", "why"), Ok("1"));
        assert_eq!(parameters.need("b", "why").unwrap_err().description, "why");
    }
}
