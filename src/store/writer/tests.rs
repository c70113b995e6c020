//! What waits for the database is bounded, whatever the database does.

use std::cmp::Ordering;

use sqlx::postgres::PgPool;
use tokio::task::JoinSet;

use super::*;

const QUARTER: usize = (ROOM as usize / 4) << 10;

/// No row weighs this but one whose writing panics.
const ILL: usize = 13;

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
            assert!(row.bytes != ILL, "a row that panics");
            row.gate.acquire().await.expect("nobody closes it").forget();
        }
        Ok(rows.iter().map(|row| row.bytes).collect())
    }
}

fn writer() -> Writer<Held> {
    // Never connected: these rows go nowhere.
    let pool = PgPool::connect_lazy("postgres://nobody@127.0.0.1:1/none").expect("an address");
    let connections = Connections::new(pool, 0);
    Writer::new(Ways { alone: connections.clone(), together: connections })
}

fn write(writer: &Writer<Held>, calls: &mut JoinSet<Result<usize, StoreError>>, row: Row) {
    let writer = writer.clone();
    calls.spawn(async move { writer.write(Arc::new(row)).await });
}

async fn one_is_turned_away(calls: &mut JoinSet<Result<usize, StoreError>>) {
    let told = tokio::time::timeout(PATIENCE * 4, calls.join_next()).await.expect("nobody waits longer");
    let told = told.expect("a call").expect("no panic");
    assert!(matches!(told, Err(StoreError::Overloaded)), "{told:?}");
}

#[tokio::test]
async fn what_waits_is_bounded_and_the_rest_is_told_to_come_back() {
    let (writer, gate) = (writer(), Arc::new(Semaphore::new(0)));
    let mut calls = JoinSet::new();
    for _ in 0..5 {
        write(&writer, &mut calls, Row { bytes: QUARTER, gate: Arc::clone(&gate) });
    }
    one_is_turned_away(&mut calls).await;
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
    one_is_turned_away(&mut calls).await;
    gate.add_permits(most as usize);
    assert!(calls.join_all().await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_panic_is_an_answer_that_nobody_knows_and_ends_no_other_rows_way() {
    let (writer, gate) = (writer(), Arc::new(Semaphore::new(9)));
    let ill = writer.write(Arc::new(Row { bytes: ILL, gate: Arc::clone(&gate) })).await;
    assert!(matches!(ill, Err(StoreError::Unavailable(_))), "{ill:?}");
    let mut calls = JoinSet::new();
    for bytes in [MAX_BYTES, ILL, MAX_BYTES] {
        write(&writer, &mut calls, Row { bytes, gate: Arc::clone(&gate) });
    }
    let told = tokio::time::timeout(PATIENCE, calls.join_all()).await.expect("nobody is left behind");
    assert_eq!(told.iter().filter(|told| told.is_ok()).count(), 2, "{told:?}");
}

#[test]
fn a_runtime_that_shuts_down_under_a_full_queue_is_held_up_by_nothing() {
    let (told, ended) = std::sync::mpsc::channel();
    let runs = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (writer, gate) = (writer(), Arc::new(Semaphore::new(0)));
            let mut calls = JoinSet::new();
            for _ in 0..3 {
                write(&writer, &mut calls, Row { bytes: MAX_BYTES, gate: Arc::clone(&gate) });
            }
            assert!(tokio::time::timeout(HELD_UP * 2, calls.join_next()).await.is_err(), "the gate is shut");
            calls.detach_all();
        });
        drop(runtime);
        told.send(()).expect("somebody listens");
    });
    ended.recv_timeout(Duration::from_secs(20)).expect("the runtime ends");
    runs.join().expect("no panic");
}
