//! retain
fn main() {}
