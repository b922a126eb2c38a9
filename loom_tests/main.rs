#![cfg_attr(not(loom), allow(unused))]
fn main() {}
