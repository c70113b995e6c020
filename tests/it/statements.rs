//! Every statement of the store is one that the migrated schema takes: names and types are checked by Postgres itself,
//! as a checked query macro would, with no database needed to build.

use std::path::Path;

use crate::support::cluster::Database;

#[tokio::test]
async fn postgres_can_prepare_every_statement_of_the_store() {
    let database = Database::fresh().await;
    let mut connection = database.connect().await;
    let mut prepared = 0;
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store")).expect("the store") {
        let file = file.expect("an entry").path();
        if file.is_dir() {
            // Tests of their own: no statement stands there.
            continue;
        }
        let source = std::fs::read_to_string(&file).expect("its text");
        for statement in statements(&source) {
            prepared += 1;
            let sql = format!("PREPARE statement_{prepared} AS {statement}");
            let outcome = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await;
            assert!(outcome.is_ok(), "{}: {outcome:?}\n{statement}", file.display());
        }
    }
    assert!(prepared > 40, "only {prepared} statements were found: the way they are written has changed");
}

/// The string literals that begin with a statement's name in a comment.
fn statements(source: &str) -> impl Iterator<Item = &str> {
    source.split("\"/* ").skip(1).filter_map(|rest| {
        let literal = &rest[..rest.find('"')?];
        // The joined read of jobs is put together by a macro, its name apart; every test goes through it.
        literal.split_once("*/").map(|(_, statement)| statement)
    })
}
