//! The shipped suites are embedded in the binary: a file that is added to them must rebuild it.

fn main() {
    println!("cargo::rerun-if-changed=suites");
}
