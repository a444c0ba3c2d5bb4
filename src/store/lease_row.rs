//! The `lease` row: who may take it, and the statements that take, renew and release it.
//!
//! Taking the lease also upgrades an older store, in the same transaction: the row stays locked until
//! the last step is made, so that the older program cannot write between the steps.

use std::time::Duration;

use ostler_actors::model::{Epoch, HolderId};

use super::host::{HolderProcess, uptime};
use super::link::{Link, int, text};
use super::location::StoreLocation;
use super::migrate;
use super::rows::json;
use super::sql::{Sql, sql};

/// Holds the row as it was found, with the database's own time.
#[derive(Clone, Debug)]
pub(super) struct LeaseRow {
    epoch: i64,
    holder: Option<String>,
    process: Option<HolderProcess>,
    expires_at: i64,
    now: i64,
}

/// Tells what a claim may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Take,
    /// It is ours already: an earlier claim counted though its answer was lost.
    Ours,
    /// Another holder has it, at least for so long.
    Wait(Duration),
}

/// Tells how a claim ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claimed {
    /// The lease is ours; it counts from this moment of uptime at the latest.
    Ours(Epoch, Duration),
    /// Another holder has it, at least for so long.
    Wait(Duration),
    /// A newer program has upgraded the store to this schema.
    Newer(i64),
}

/// Says who decides about the lease.
#[derive(Clone, Copy, Debug)]
pub(super) enum Judge {
    /// A file lock of the system, which we have: the row only counts epochs.
    FileLock,
    /// The server's clock, with this length of a lease.
    Clock(Duration),
}

/// Decides whether the lease may be taken.
pub(super) fn judge(
    lease_row: &LeaseRow,
    holder: &HolderId,
    dead: impl Fn(&HolderProcess) -> bool,
) -> Claim {
    if lease_row.holder.as_deref() == Some(holder.as_str()) {
        return Claim::Ours;
    }
    let left = lease_row.expires_at.saturating_sub(lease_row.now);
    if left <= 0 || lease_row.process.as_ref().is_some_and(dead) {
        return Claim::Take;
    }
    Claim::Wait(Duration::from_micros(left.unsigned_abs()))
}

/// Tries to take the lease.
pub(super) async fn claim(
    link: &mut Link,
    place: &StoreLocation,
    by: Judge,
    holder: &HolderId,
) -> Result<Claimed, sqlx::Error> {
    const LEASE_ROW: Sql = sql!(
        "select epoch, holder, process, expires_at, " now " from lease " lock
    );
    const TAKE: Sql = sql!(
        "update lease set epoch = $1, holder = $2, process = $3, expires_at = " now " + $4"
    );
    const REMEMBER: Sql = sql!(
        "insert into holders (epoch, holder, schema, taken_at) values ($1, $2, $3, " now ")"
    );
    let asked_at = uptime();
    link.begin().await?;
    let schema = migrate::version(link).await?;
    if schema > migrate::NEWEST {
        link.rollback().await?;
        return Ok(Claimed::Newer(schema));
    }
    let row = link.first(LEASE_ROW, Vec::new()).await?.ok_or(sqlx::Error::RowNotFound)?;
    let process = row.maybe_text(2)?.and_then(|text| serde_json::from_str(&text).ok());
    let (epoch, holder_now) = (row.int(0)?, row.maybe_text(1)?);
    let lease_row =
        LeaseRow { epoch, holder: holder_now, process, expires_at: row.int(3)?, now: row.int(4)? };
    let (verdict, length) = match by {
        Judge::FileLock => (Claim::Take, Duration::ZERO),
        Judge::Clock(length) => (judge(&lease_row, holder, HolderProcess::is_proven_dead), length),
    };
    match verdict {
        Claim::Take => {}
        Claim::Ours => {
            link.rollback().await?;
            return Ok(Claimed::Ours(Epoch(lease_row.epoch.cast_unsigned()), asked_at));
        }
        Claim::Wait(left) => {
            link.rollback().await?;
            return Ok(Claimed::Wait(left));
        }
    }
    migrate::upgrade(link, schema, place).await?;
    // The lease counts from here: an upgrade may take longer than a lease lasts.
    let asked_at = uptime();
    let next = lease_row.epoch + 1;
    let process = json(&HolderProcess::myself());
    let name = || text(holder.as_str());
    link.run(TAKE, vec![int(next), name(), text(process), int(micros(length))]).await?;
    link.run(REMEMBER, vec![int(next), name(), int(migrate::NEWEST)]).await?;
    link.commit().await?;
    Ok(Claimed::Ours(Epoch(next.cast_unsigned()), asked_at))
}

/// Renews a lease; returns whether it was still ours.
pub(super) async fn renew(
    link: &mut Link,
    epoch: Epoch,
    length: Duration,
) -> Result<bool, sqlx::Error> {
    const RENEW: Sql = sql!("update lease set expires_at = " now " + $2 where epoch = $1");
    let args = vec![int(epoch.0.cast_signed()), int(micros(length))];
    Ok(link.run(RENEW, args).await? == 1)
}

/// Releases a lease, so that the next holder need not wait.
pub(super) async fn release(link: &mut Link, epoch: Epoch) -> Result<(), sqlx::Error> {
    const RELEASE: Sql = sql!("update lease set expires_at = 0 where epoch = $1");
    link.run(RELEASE, vec![int(epoch.0.cast_signed())]).await.map(drop)
}

/// Returns the epoch that may write.
pub(super) async fn current(link: &mut Link) -> Result<Epoch, sqlx::Error> {
    const CURRENT: Sql = sql!("select epoch from lease");
    let epoch = link.first(CURRENT, Vec::new()).await?.map_or(Ok(0), |row| row.int(0))?;
    Ok(Epoch(epoch.cast_unsigned()))
}

fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease_row(expires_at: i64) -> LeaseRow {
        LeaseRow {
            epoch: 3,
            holder: Some("other".into()),
            process: Some(HolderProcess::myself()),
            expires_at,
            now: 1_000_000,
        }
    }

    fn judged(lease_row: &LeaseRow, dead: bool) -> Claim {
        judge(lease_row, &HolderId::new("me"), |_| dead)
    }

    #[test]
    fn a_running_lease_is_waited_for_and_a_lapsed_or_released_one_taken() {
        let left = Duration::from_secs(2);
        assert_eq!(judged(&lease_row(3_000_000), false), Claim::Wait(left));
        assert_eq!(judged(&lease_row(1_000_000), false), Claim::Take);
        assert_eq!(judged(&lease_row(0), false), Claim::Take);
    }

    #[test]
    fn a_holder_that_is_proven_dead_is_not_waited_for() {
        assert_eq!(judged(&lease_row(3_000_000), true), Claim::Take);
        let unknown = LeaseRow { process: None, ..lease_row(3_000_000) };
        assert!(matches!(judged(&unknown, true), Claim::Wait(_)));
    }

    #[test]
    fn a_claim_whose_answer_was_lost_finds_itself() {
        let mine = LeaseRow { holder: Some("me".into()), ..lease_row(3_000_000) };
        assert_eq!(judged(&mine, false), Claim::Ours);
    }
}
