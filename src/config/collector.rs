//! Where traces go, in OpenTelemetry's own variables: an operator who knows them knows ours.

use std::fmt;

use percent_encoding::percent_decode_str;
use secrecy::SecretString;

/// Names a collector of traces.
#[derive(Clone)]
pub struct Collector {
    /// Where traces are posted.
    pub url: String,
    /// What is said beside them; the values may be passwords.
    pub headers: Vec<(String, SecretString)>,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        // An address may hold a password too.
        f.debug_struct("Collector").field("headers", &names).finish_non_exhaustive()
    }
}

impl Collector {
    /// Reads OpenTelemetry's variables; none is set where traces are not collected.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let set =
            |name: &str| variable(name).map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
        if set("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true")) {
            return None;
        }
        let url = set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| {
            let base = set("OTEL_EXPORTER_OTLP_ENDPOINT")?;
            Some(format!("{}/v1/traces", base.trim_end_matches('/')))
        })?;
        let headers = set("OTEL_EXPORTER_OTLP_TRACES_HEADERS")
            .or_else(|| set("OTEL_EXPORTER_OTLP_HEADERS"))
            .unwrap_or_default();
        let pair = |text: &str| {
            let (name, value) = text.split_once('=')?;
            Some((
                name.trim().to_owned(),
                SecretString::from(
                    percent_decode_str(value.trim()).decode_utf8_lossy().into_owned(),
                ),
            ))
        };
        Some(Self { url, headers: headers.split(',').filter_map(pair).collect() })
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn read(set: &[(&str, &str)]) -> Option<Collector> {
        let find =
            |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, it)| (*it).to_owned());
        Collector::read(find)
    }

    #[test]
    fn no_collector_is_used_unless_one_is_named() {
        assert!(read(&[]).is_none());
        assert!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).is_none());
        let both =
            [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"), ("OTEL_SDK_DISABLED", "True")];
        assert!(read(&both).is_none());
    }

    #[test]
    fn the_variables_mean_what_they_mean_elsewhere() {
        let url = |set: &[(&str, &str)]| read(set).unwrap().url;
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/");
        assert_eq!(url(&[base]), "http://c:4318/v1/traces");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c/otlp");
        assert_eq!(url(&[base, own]), "https://c/otlp");
        let headers =
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%20c%zz%, Authorization = Bearer x=y,,odd");
        let collector = read(&[base, headers]).unwrap();
        let sent: Vec<(&str, &str)> = collector
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.expose_secret()))
            .collect();
        assert_eq!(sent, [("a", "b c%zz%"), ("Authorization", "Bearer x=y")]);
        assert!(!format!("{collector:?}").contains("Bearer"), "{collector:?}");
    }
}
