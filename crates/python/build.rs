//! Tells the crate which Python it is built for, as `cfg(Py_3_14)` and the like: `src/text.rs` wants it.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
