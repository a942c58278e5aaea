//! Sets `cfg(Py_3_14)` and similar for the Python version of the build, for `src/text.rs`.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
