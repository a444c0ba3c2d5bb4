//! Prints errors: with everything that led to them, or with the cause alone.

use std::error::Error;
use std::iter::successors;

/// Returns an error and its causes in one line.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for link in successors(Some(error), |link| (*link).source()) {
        let link = link.to_string();
        // kube, sqlx and hyper quote the cause in some of their own sentences.
        if text.contains(&link) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&link);
    }
    text
}

/// Returns the deepest cause: of a call over the network it says what the system said.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    successors(Some(error), |link| (*link).source()).last().unwrap_or(error).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    fn layers(texts: &[&'static str]) -> Layer {
        let (first, rest) = texts.split_first().unwrap();
        let source = (!rest.is_empty()).then(|| Box::new(layers(rest)));
        Layer { text: first, source }
    }

    #[test]
    fn causes_are_printed_in_order_and_what_was_said_is_not_repeated() {
        let error = layers(&["call failed: no route", "no route", "host is down"]);
        assert_eq!(chain(&error), "call failed: no route: host is down");
        assert_eq!(root_cause(&error), "host is down");
        assert_eq!(chain(&layers(&["alone"])), "alone");
    }
}
