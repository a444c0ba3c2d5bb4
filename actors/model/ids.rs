//! Names that do not mix: a pool is not an instance, an instance is not its runner.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Defines a cheap-to-clone text newtype.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a text.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

text_id!(
    /// Names a pool, as written in the config.
    PoolId
);
text_id!(
    /// Names an instance; unique for ever, never used again.
    InstanceId
);
text_id!(
    /// Names a configured forge.
    ForgeId
);
text_id!(
    /// Names a configured provider.
    ProviderId
);
text_id!(
    /// Names a machine at its provider; usually the instance's own name.
    MachineName
);
text_id!(
    /// Names a registration at the forge: `<instance>` first, `<instance>-<n>` for further mints.
    RunnerName
);
text_id!(
    /// Names this installation: made once in the store, stamped on every machine.
    ControllerId
);
text_id!(
    /// Names one leadership under the lease; the store remembers every one it ever gave out.
    HolderId
);
text_id!(
    /// Names the shape of a pool's machines; a pool edit that changes machines changes it.
    Revision
);
text_id!(
    /// Names one webhook delivery (GitHub's GUID), equal on redelivery.
    DeliveryId
);
text_id!(
    /// Names the host or node a machine runs on.
    HostName
);

impl RunnerName {
    /// Returns whether it is the registration of a machine by its form: the machine's own name,
    /// or that name with the number of a further mint. No instance is named so itself: the word
    /// at the end of its name is longer than any number of mints.
    pub fn is_of(&self, machine: &str) -> bool {
        self.as_str() == machine || self.unnumbered() == Some(machine)
    }

    /// Returns the name without the number of a further mint, if it has one.
    pub fn unnumbered(&self) -> Option<&str> {
        let (base, number) = self.as_str().rsplit_once('-')?;
        let is_number = (1..=9).contains(&number.len())
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && !number.starts_with('0');
        is_number.then_some(base)
    }
}

/// Defines a number newtype.
macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Returns the one after this.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id!(
    /// Counts the offers of a job; a message with an old one is ignored.
    Generation
);
number_id!(
    /// Counts the saves of a row; a save that expects another one is refused.
    Version
);
number_id!(
    /// Counts the tenures of the lease; a write with an old one is refused.
    Epoch
);
number_id!(
    /// Marks one save, so that its repetition after a lost answer finds itself.
    WriteId
);
number_id!(
    /// Numbers a registration at the forge.
    RunnerId
);

/// Names one workflow job at one forge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId {
    /// The forge that knows the job.
    pub forge: ForgeId,
    /// The forge's own number.
    pub number: u64,
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.forge, self.number)
    }
}
