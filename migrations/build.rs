//! A migration that is new makes the crate be built anew: `migrate!` sees only changes of those it has read.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
