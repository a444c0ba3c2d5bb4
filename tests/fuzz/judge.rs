//! What must hold of any delivery, wherever the bytes come from: `make fuzz` and every test run use it.
//!
//! No panic, the same answer twice, nothing unsigned is read, nothing signed is called unsigned,
//! and no refusal repeats what was sent. The same bytes are tried as a body, as a signature, as the
//! name of an event and as the id of a delivery; what else is chosen is chosen by the bytes, so that
//! a finding is one file.

use aws_lc_rs::hmac;
use jiff::Timestamp;
use ostler_actors::model::{DeliveryId, ForgeId, Scope};

use super::webhook::{Request, Secrets, WebhookEvent, WebhookRefusal, open};

/// Holds what every delivery is judged against.
pub(crate) struct Judge {
    key: hmac::Key,
    secrets: Secrets,
    forge: ForgeId,
    scopes: Vec<Scope>,
}

impl Judge {
    pub(crate) fn new() -> Self {
        let secrets = ["hush", "the old one"].map(|it| it.to_owned().into());
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, b"hush"),
            secrets: Secrets::new(&secrets),
            forge: ForgeId::new("github"),
            scopes: vec!["acme".parse().unwrap(), "octo-org/example-workflow".parse().unwrap()],
        }
    }

    /// Tries the bytes in every place; returns whether as a body they were news of a job.
    pub(crate) fn judge(&self, bytes: &[u8]) -> bool {
        let choice = choice(bytes);
        let job = self.as_body(bytes, choice);
        if let Ok(text) = std::str::from_utf8(bytes) {
            self.as_head(text);
        }
        job
    }

    fn open(&self, request: Request<'_>) -> Result<WebhookEvent, WebhookRefusal> {
        open(&self.secrets, request, &self.forge, &self.scopes, Timestamp::UNIX_EPOCH)
    }

    /// Tries one body: signed well, then signed for other bytes, then with a spoilt signature.
    fn as_body(&self, body: &[u8], choice: u64) -> bool {
        let good = self.sign(body);
        let request = Request {
            event: match choice % 16 {
                0 => None,
                1 => Some("ping"),
                2 => Some("push"),
                _ => Some("workflow_job"),
            },
            delivery: Some("a-guid"),
            signature: Some(&good),
            body,
        };
        let told = self.open(request);
        assert_eq!(told, self.open(request), "the same answer twice");
        let mut other = body.to_vec();
        other.push(b' ');
        let forged = self.open(Request { body: &other, ..request });
        assert_eq!(forged, Err(WebhookRefusal::BadSignature));
        let mut spoilt = good.clone().into_bytes();
        let at = usize::try_from(choice >> 8).unwrap_or_default() % spoilt.len();
        spoilt[at] = b' ' + u8::try_from((choice >> 40) % 95).unwrap();
        let spoilt = String::from_utf8(spoilt).unwrap();
        if !spoilt.trim().eq_ignore_ascii_case(&good) {
            let refused = self.open(Request { signature: Some(&spoilt), ..request });
            assert_eq!(refused, Err(WebhookRefusal::BadSignature), "{spoilt}");
        }
        self.is_in_order(&told)
    }

    fn is_in_order(&self, told: &Result<WebhookEvent, WebhookRefusal>) -> bool {
        match told {
            Ok(WebhookEvent::Job(news)) => {
                let notice = &news.notice;
                assert!(self.scopes.iter().any(|scope| scope.covers(&notice.place)));
                assert_eq!(notice.delivery.as_ref().map(DeliveryId::as_str), Some("a-guid"));
                assert!(
                    notice.runner.is_none() || notice.fact.rank() > 1,
                    "only work has a runner"
                );
                true
            }
            Ok(WebhookEvent::Ignored(word)) => {
                assert!(word.chars().count() <= 64 && !word.chars().any(char::is_control));
                false
            }
            Ok(WebhookEvent::Ping | WebhookEvent::Elsewhere(_)) => false,
            Err(WebhookRefusal::Malformed(why)) => {
                assert!(why.len() < 120, "a refusal repeats what was sent: {why}");
                false
            }
            Err(
                WebhookRefusal::TooLarge | WebhookRefusal::Unsigned | WebhookRefusal::BadSignature,
            ) => {
                panic!("signed, and refused: {told:?}")
            }
        }
    }

    /// Tries the text as each of the headers that a stranger may choose.
    fn as_head(&self, text: &str) {
        let body = br#"{"action":"queued","workflow_job":{"id":1},"repository":{"name":"web","owner":{"login":"acme"}}}"#;
        let good = self.sign(body);
        let request = Request {
            event: Some("workflow_job"),
            delivery: Some(text),
            signature: Some(&good),
            body,
        };
        let told = self.open(Request { signature: Some(text), ..request });
        if !text.trim().eq_ignore_ascii_case(&good) {
            assert_eq!(told, Err(WebhookRefusal::BadSignature), "{text}");
        }
        match self.open(Request { event: Some(text), ..request }) {
            Ok(WebhookEvent::Ignored(word)) => assert!(word.chars().count() <= 64),
            Ok(WebhookEvent::Ping) => assert_eq!(text, "ping"),
            Ok(WebhookEvent::Job(_)) => assert_eq!(text, "workflow_job"),
            Ok(WebhookEvent::Elsewhere(place)) => {
                panic!("our own repository is elsewhere: {place:?}")
            }
            Err(refusal) => panic!("an event we do not know is refused: {refusal}"),
        }
        match self.open(request) {
            Ok(WebhookEvent::Job(news)) => {
                let kept = news.notice.delivery.as_ref().map_or("", DeliveryId::as_str);
                assert_eq!(kept, text, "the id is kept as it came, or there is none");
            }
            other => panic!("a good delivery is not read because of its id: {other:?}"),
        }
    }

    fn sign(&self, body: &[u8]) -> String {
        let tag = hmac::sign(&self.key, body);
        let digits: Vec<String> = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256={}", digits.concat())
    }
}

/// Returns a number that the bytes decide (FNV-1a).
fn choice(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, mix)
}
