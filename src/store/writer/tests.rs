//! What waits for the database is bounded, whatever the database does.

use std::cmp::Ordering;

use tokio::task::JoinSet;

use super::*;

const QUARTER: usize = (ROOM as usize / 4) << 10;

/// Rows that are written once somebody opens the gate.
struct Held;

struct Row {
    bytes: usize,
    gate: Arc<Semaphore>,
}

impl Rows for Held {
    type Row = Row;
    type Answer = usize;
    const LANES: usize = 1;

    fn name(_: &Row) -> Option<Uuid> {
        None
    }

    fn order(_: &Row, _: &Row) -> Ordering {
        Ordering::Equal
    }

    fn weight(row: &Row) -> usize {
        row.bytes
    }

    async fn write(_: &Ways, rows: &[Arc<Row>]) -> Result<Vec<usize>, StoreError> {
        for row in rows {
            row.gate.acquire().await.expect("nobody closes it").forget();
        }
        Ok(rows.iter().map(|row| row.bytes).collect())
    }
}

fn writer() -> Writer<Held> {
    // Never connected: these rows go nowhere.
    let pool = PgPool::connect_lazy("postgres://nobody@127.0.0.1:1/none").expect("an address");
    Writer::new(Ways { alone: pool.clone(), together: pool })
}

fn write(writer: &Writer<Held>, calls: &mut JoinSet<Result<usize, StoreError>>, row: Row) {
    let writer = writer.clone();
    calls.spawn(async move { writer.write(Arc::new(row)).await });
}

#[tokio::test]
async fn what_waits_is_bounded_and_the_rest_is_told_to_come_back() {
    let (writer, gate) = (writer(), Arc::new(Semaphore::new(0)));
    let mut calls = JoinSet::new();
    for _ in 0..5 {
        write(&writer, &mut calls, Row { bytes: QUARTER, gate: Arc::clone(&gate) });
    }
    let turned_away = calls.join_next().await.expect("a call").expect("no panic");
    assert!(matches!(turned_away, Err(StoreError::Overloaded)), "{turned_away:?}");
    gate.add_permits(5);
    for told in calls.join_all().await {
        assert_eq!(told.expect("an answer"), QUARTER);
    }
    assert_eq!(writer.write(Arc::new(Row { bytes: QUARTER, gate })).await.expect("there is room again"), QUARTER);
}

#[tokio::test]
async fn one_that_is_larger_than_all_the_room_is_written_when_it_has_all_of_it() {
    let (writer, gate) = (writer(), Arc::new(Semaphore::new(2)));
    let whole = (ROOM as usize) << 10;
    let mut calls = JoinSet::new();
    for bytes in [QUARTER, 3 * whole] {
        write(&writer, &mut calls, Row { bytes, gate: Arc::clone(&gate) });
    }
    let mut told: Vec<usize> = calls.join_all().await.into_iter().map(|told| told.expect("an answer")).collect();
    told.sort_unstable();
    assert_eq!(told, [QUARTER, 3 * whole]);
}

#[tokio::test]
async fn many_small_rows_count_their_least() {
    let (writer, gate) = (writer(), Arc::new(Semaphore::new(0)));
    let mut calls = JoinSet::new();
    let most = ROOM / LEAST;
    for _ in 0..=most {
        write(&writer, &mut calls, Row { bytes: 0, gate: Arc::clone(&gate) });
    }
    let turned_away = calls.join_next().await.expect("a call").expect("no panic");
    assert!(matches!(turned_away, Err(StoreError::Overloaded)), "{turned_away:?}");
    gate.add_permits(most as usize);
    assert!(calls.join_all().await.iter().all(Result::is_ok));
}
