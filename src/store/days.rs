//! The days of the payload tables: which partition a job's payloads lie in, and the making of days before they begin.
//!
//! A day is a range of job ids (UUIDv7, so a span of time in UTC). One that is missing never stops a job: its rows then
//! lie in the default partition. Nothing here waits for a lock for longer than [`LOCK_WAIT`], so no request waits
//! longer behind it.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use time::Date;
use uuid::Uuid;

use super::{Store, StoreError, retrying};
use crate::domain::ids::{JobId, OwnerId};

/// The payload tables. Answers come first: what is asked for a job's payloads asks for its answer.
pub(super) const TABLES: [&str; 2] = ["job_results", "job_requests"];
/// Days that are made before they begin.
const AHEAD: i64 = 7;
const DAY: u64 = 86_400_000;
/// 1970-01-01 as a Julian day.
const EPOCH: i64 = 2_440_588;
/// How long a change of the partitions waits for its locks, before it is put off.
const LOCK_WAIT: Duration = Duration::from_millis(100);
/// How long one change may hold them.
pub(super) const LOCK_HOLD: Duration = Duration::from_millis(300);
/// The one lock that whoever changes partitions holds.
const HOUSE: i64 = 0x696e_7465_726c_6f63;
/// Looks for another process's days, and the pause between them.
const LOOKS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

const CLOCK: &str = "/* clock_ms */ SELECT (extract(epoch FROM now()) * 1000)::int8";
const PARTS: &str = "/* payload_parts */
SELECT i.inhparent::regclass::text AS parent, c.relname::text AS name, pg_get_expr(c.relpartbound, c.oid) AS bound
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent IN ('job_results'::regclass, 'job_requests'::regclass)";
const KEEP_HOUSE: &str = "/* keep_house */
SELECT set_config('statement_timeout', '10min', false), set_config('lock_timeout', $1, false),
       set_config('idle_session_timeout', '1min', false)";
const TAKE_HOUSE: &str = "/* take_house */ SELECT pg_try_advisory_lock($1)";
const LEAVE_HOUSE: &str = "/* leave_house */ SELECT pg_advisory_unlock($1)";
const BOUND_HOLD: &str = "/* bound_hold */ SELECT set_config('statement_timeout', $1, true)";

/// A day in UTC, counted from 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Day(i64);

impl Day {
    /// In which the id was made, by the clock of who made it.
    pub fn of(id: JobId) -> Day {
        Day::at(millis_of(id.as_uuid()))
    }

    /// `millis` since 1970.
    pub fn at(millis: u64) -> Day {
        Day((millis / DAY).cast_signed())
    }

    fn first_id(self) -> Uuid {
        Uuid::from_u128((u128::from(self.0.cast_unsigned()) * u128::from(DAY)) << 80)
    }

    /// The name of its partition of `parent`; `None` beyond the calendar, which only made-up ids are.
    pub fn table(self, parent: &str) -> Option<String> {
        let date = Date::from_julian_day(i32::try_from(self.0 + EPOCH).ok()?).ok()?;
        Some(format!("{parent}_{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day()))
    }
}

fn millis_of(id: Uuid) -> u64 {
    u64::try_from(id.as_u128() >> 80).unwrap_or_default()
}

/// A partition of a payload table.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub parent: &'static str,
    pub name: String,
    /// The first id that it holds and the first that it doesn't; `None`: whatever falls into no other.
    pub range: Option<(Uuid, Uuid)>,
}

impl Part {
    /// `None`: its bounds are of a kind that is not made here.
    fn read(row: &PgRow) -> Result<Option<Part>, sqlx::Error> {
        // One that is being removed at this moment has no bounds any more.
        let Some(bound) = row.try_get::<Option<&str>, _>("bound")? else { return Ok(None) };
        let parent: &str = row.try_get("parent")?;
        let Some(parent) = TABLES.into_iter().find(|table| parent.ends_with(table)) else { return Ok(None) };
        let id = |word: &str| Uuid::parse_str(bound.split_once(word)?.1.get(..36)?).ok();
        let range = match (bound, bound.contains("(MINVALUE)")) {
            ("DEFAULT", _) => None,
            (_, true) => id("TO ('").map(|to| (Uuid::nil(), to)),
            (_, false) => id("FROM ('").zip(id("TO ('")),
        };
        let understood = bound == "DEFAULT" || range.is_some();
        Ok(if understood { Some(Part { parent, name: row.try_get("name")?, range }) } else { None })
    }

    fn holds(&self, id: Uuid) -> bool {
        self.range.is_some_and(|(from, to)| from <= id && id < to)
    }

    /// The end of its time, in milliseconds since 1970.
    pub fn ends_at(&self) -> Option<u64> {
        self.range.map(|(_, to)| millis_of(to))
    }

    /// Not a day that all processes write into in its time: what lies here goes row by row.
    pub fn is_stray(&self, now: u64) -> bool {
        let ahead = u64::try_from(AHEAD + 1).unwrap_or_default() * DAY;
        self.range.is_none_or(|(from, _)| from.is_nil() || millis_of(from) > now + ahead)
    }
}

/// A connection of its own that may change partitions, and is the only one while it lives.
#[derive(Debug)]
pub(super) struct House {
    pub connection: PgConnection,
}

impl House {
    /// Makes the day, unless rows of it lie in the default partition already: then they all do.
    async fn make(&mut self, parent: &str, day: Day) -> Result<(), StoreError> {
        let Some(name) = day.table(parent) else { return Ok(()) };
        let (from, to) = (day.first_id(), Day(day.0 + 1).first_id());
        let mut tx = self.connection.begin().await?;
        bound_hold(&mut tx).await?;
        // Attached, not created in place: that locks out nobody but who reads or writes the default partition.
        let make = format!(
            "/*make_day*/ CREATE TABLE {name} (LIKE {parent} INCLUDING ALL);
             ALTER TABLE {parent} ATTACH PARTITION {name} FOR VALUES FROM ('{from}') TO ('{to}')"
        );
        match sqlx::raw_sql(AssertSqlSafe(make)).execute(&mut *tx).await {
            Ok(_) => Ok(tx.commit().await?),
            Err(error) => {
                tx.rollback().await?;
                let code = error.as_database_error().and_then(|e| e.code());
                if code.is_some_and(|code| code == "23514") {
                    tracing::warn!(table = name, "rows of this day lie in the default partition; a clock is off");
                    return Ok(());
                }
                Err(error.into())
            }
        }
    }

    /// Without the word, the next one might find the house taken until the server has noticed.
    pub async fn leave(mut self) -> Result<(), StoreError> {
        sqlx::query(LEAVE_HOUSE).bind(HOUSE).execute(&mut self.connection).await?;
        Ok(self.connection.close().await?)
    }
}

/// This transaction's statements are ended rather than hold their locks for longer than they may.
pub(super) async fn bound_hold(connection: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::query(BOUND_HOLD).bind(LOCK_HOLD.as_millis().to_string()).execute(connection).await?;
    Ok(())
}

/// A lock or a statement took longer than it may: another time will do.
pub(super) fn is_put_off(error: &StoreError) -> bool {
    is_of(error, "55P03") || is_of(error, "57014")
}

/// The table is not there.
fn is_no_table(error: &StoreError) -> bool {
    is_of(error, "42P01")
}

fn is_of(error: &StoreError, wanted: &str) -> bool {
    let (StoreError::Broken(error) | StoreError::Unavailable(error)) = error else { return false };
    error.as_database_error().and_then(|e| e.code()).is_some_and(|code| code == wanted)
}

impl Store {
    /// Makes the days from today on, by the database's clock and by this process's, which its ids are made by. Any
    /// process does it, at its start and from time to time; what cannot be had at once is left for the next time.
    pub async fn make_days(&self) -> Result<(), StoreError> {
        let (today, own) = (Day::at(self.clock_ms().await?), Day::of(JobId::fresh()));
        let mut wanted: Vec<Day> = (today.0..=today.0 + AHEAD).map(Day).collect();
        if own > today {
            wanted.extend([own, Day(own.0 + 1)].into_iter().filter(|day| day.0 > today.0 + AHEAD));
        }
        for _ in 0..LOOKS {
            if self.missing(&wanted).await?.is_empty() {
                return Ok(());
            }
            let Some(mut house) = self.keep_house().await? else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            // Once more, now that nobody else makes any.
            for (parent, day) in self.missing(&wanted).await? {
                match house.make(parent, day).await {
                    Err(error) if is_put_off(&error) => {
                        tracing::info!(%error, "the next days are made later");
                        break;
                    }
                    made => made?,
                }
            }
            return house.leave().await;
        }
        Ok(())
    }

    async fn missing(&self, wanted: &[Day]) -> Result<Vec<(&'static str, Day)>, StoreError> {
        let parts = self.parts().await?;
        let there = |parent, day: Day| parts.iter().any(|part| part.parent == parent && part.holds(day.first_id()));
        let all = TABLES.into_iter().flat_map(|parent| wanted.iter().map(move |day| (parent, *day)));
        Ok(all.filter(|(parent, day)| !there(*parent, *day)).collect())
    }

    /// The partitions of both tables, the oldest first.
    pub(super) async fn parts(&self) -> Result<Vec<Part>, StoreError> {
        let rows = retrying(|| sqlx::query(PARTS).fetch_all(&self.pool)).await?;
        let mut parts = Vec::with_capacity(rows.len());
        for row in &rows {
            parts.extend(Part::read(row)?);
        }
        let place = |part: &Part| TABLES.iter().position(|table| *table == part.parent);
        parts.sort_by_key(|part| (part.range.map(|(_, to)| to), place(part)));
        Ok(parts)
    }

    /// The database's clock, in milliseconds since 1970.
    pub(super) async fn clock_ms(&self) -> Result<u64, StoreError> {
        let now: i64 = retrying(|| sqlx::query_scalar(CLOCK).fetch_one(&self.pool)).await?;
        Ok(now.cast_unsigned())
    }

    /// `None`: another process is at it. Who stands still loses the house after a minute.
    pub(super) async fn keep_house(&self) -> Result<Option<House>, StoreError> {
        let mut connection = self.pool.acquire().await?.detach();
        sqlx::query(KEEP_HOUSE).bind(LOCK_WAIT.as_millis().to_string()).execute(&mut connection).await?;
        let taken: bool = sqlx::query_scalar(TAKE_HOUSE).bind(HOUSE).fetch_one(&mut connection).await?;
        if !taken {
            connection.close().await?;
            return Ok(None);
        }
        Ok(Some(House { connection }))
    }

    /// The row of a payload table that `sql` asks for. From the job's day by its name: through the whole table every
    /// day of it is locked and planned with. Without a day of its own the row may still lie in the default partition.
    pub(super) async fn payload(
        &self,
        sql: &'static str,
        parent: &str,
        owner: OwnerId,
        job: JobId,
    ) -> Result<Option<PgRow>, StoreError> {
        let read = |sql: AssertSqlSafe<String>| async move {
            retrying(|| sqlx::query(AssertSqlSafe(sql.0.clone())).bind(owner).bind(job).fetch_optional(&self.pool))
                .await
        };
        in_day(sql, parent, job, read).await
    }
}

/// `sql` with the day of `id` in the place of `parent`; as it is where the answer says that there is no such day.
pub(super) async fn in_day<T, F, Fut>(sql: &'static str, parent: &str, id: JobId, run: F) -> Result<T, StoreError>
where
    F: Fn(AssertSqlSafe<String>) -> Fut,
    Fut: Future<Output = Result<T, StoreError>>,
{
    if let Some(day) = Day::of(id).table(parent) {
        match run(AssertSqlSafe(sql.replace(parent, &day))).await {
            Err(error) if is_no_table(&error) => {}
            read => return read,
        }
    }
    run(AssertSqlSafe(sql.to_owned())).await
}
