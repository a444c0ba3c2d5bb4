//! What `explain` says of rows that cannot be decoded.

use ostler_actors::model::Subject;
use ostler_actors::ports::{QuarantinedRow, RecordKey};

use crate::http::AppState;

/// Says what is wrong with a row, what that means, and the way out.
pub(super) fn sentence(row: &QuarantinedRow) -> String {
    format!("{row}; it stays in the store as it is: mend or delete it there, then restart ostler")
}

impl AppState {
    /// Explains a subject whose own row cannot be decoded, if it is one.
    pub(super) fn explain_quarantined(&self, subject: &Subject) -> Option<Vec<String>> {
        let key = match subject {
            Subject::Instance(id) => RecordKey::Instance(id.clone()),
            Subject::Job(id) => RecordKey::Job(id.clone()),
            Subject::Pool(id) => RecordKey::Pool(id.clone()),
        };
        let row = self.records.quarantined().into_iter().find(|row| row.key == key)?;
        let mut lines = vec![format!("{}.", sentence(&row))];
        if let (Some(pool), Some((provider, machine))) = (&row.pool, &row.machine) {
            lines.push(format!(
                "Until then it holds a place of pool `{pool}`, and its machine `{machine}` at \
                 provider `{provider}` is neither adopted nor touched."
            ));
        }
        if row.job().is_some() {
            lines.push("Until then the job is not served; what runs it is left alone.".into());
        }
        Some(lines)
    }

    /// Says what else of a subject cannot be decoded: events, the record of its end, and of a pool
    /// its instances and its row.
    pub(super) fn quarantine_remarks(&self, subject: &Subject) -> Vec<String> {
        let concerns = |row: &QuarantinedRow| match (&row.key, subject) {
            (RecordKey::Event(of, _), subject) => of == subject,
            (RecordKey::Exit(id), Subject::Instance(of)) => id == of,
            (RecordKey::Instance(_) | RecordKey::Pool(_), Subject::Pool(of)) => {
                row.pool.as_ref() == Some(of)
            }
            (
                RecordKey::Instance(_)
                | RecordKey::Job(_)
                | RecordKey::Pool(_)
                | RecordKey::Exit(_)
                | RecordKey::Delivery(_),
                _,
            ) => false,
        };
        let rows = self.records.quarantined().into_iter().filter(concerns);
        rows.map(|row| format!("{}.", sentence(&row))).collect()
    }
}
