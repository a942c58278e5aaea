//! The Python object that stores what plain values cannot: objects of registered types, pickles, the
//! bytes of a codec, compressed values. Must not know how it does so: `tuckbox.objects` decides.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use tuckbox_engine::Handle;

use crate::ending;

/// Which values the Python object encodes as a whole. Those of registered types come first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// None.
    Nothing,
    /// Those that are not plain.
    NotPlain,
    /// All but 64-bit integers.
    Everything,
}

/// The Python object, and what is asked of it so often that it is kept here.
pub struct Objects {
    object: Py<PyAny>,
    /// A tuple of name and function for each type. The function returns the state of an object.
    by_type: Py<PyDict>,
    /// The function that makes an object of its state, for each name.
    by_name: Py<PyDict>,
    /// Which values it encodes as a whole.
    pub takes: Takes,
    /// It compresses values from this length on.
    pub compress_min_bytes: usize,
    /// How often it was asked to make an object.
    asked: AtomicU64,
}

/// The entry that a value belongs to: a signature is valid for one only.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// What stores values that are not plain, if anything does.
    pub objects: Option<&'a Objects>,
    /// The cache.
    pub cache: &'a Handle,
    /// The encoded key.
    pub key: &'a [u8],
}

/// An algorithm's number, and what it has made of a value.
type Compressed<'py> = (u8, Bound<'py, PyBytes>);

impl Objects {
    /// Asks the Python object what it stores.
    ///
    /// # Errors
    /// Exceptions of Python, if it is no such object.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Objects> {
        let py = object.py();
        let takes: u8 = object.getattr(intern!(py, "takes"))?.extract()?;
        let least: Option<usize> = object.getattr(intern!(py, "compress_min_bytes"))?.extract()?;
        Ok(Objects {
            object: object.clone().unbind(),
            by_type: object.getattr(intern!(py, "by_type"))?.cast_into::<PyDict>()?.unbind(),
            by_name: object.getattr(intern!(py, "by_name"))?.cast_into::<PyDict>()?.unbind(),
            takes: match takes {
                0 => Takes::Nothing,
                1 => Takes::NotPlain,
                _ => Takes::Everything,
            },
            compress_min_bytes: least.unwrap_or(usize::MAX),
            asked: AtomicU64::new(0),
        })
    }

    /// The Python object itself.
    pub fn object(&self) -> &Py<PyAny> {
        &self.object
    }

    /// How often it was asked to make an object of its own. If that did not change while a value was
    /// decoded, the value is a plain one.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// For the garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.object)
    }

    /// Whether objects of exactly this type are registered.
    pub fn is_registered(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.by_type.bind(value.py()).contains(value.get_type())
    }

    /// The registered name and the state of an object; `None` if its type is not registered.
    ///
    /// # Errors
    /// Exceptions of the registered function.
    pub fn state<'py>(
        &self,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(Bound<'py, PyString>, Bound<'py, PyAny>)>> {
        let Some(recipe) = self.by_type.bind(value.py()).get_item(value.get_type())? else {
            return Ok(None);
        };
        let _inside = ending::enter(value.py());
        let recipe = recipe.cast_into::<PyTuple>()?;
        let name = recipe.get_item(0)?.cast_into::<PyString>()?;
        Ok(Some((name, recipe.get_item(1)?.call1((value,))?)))
    }

    /// The function that makes an object of its state.
    ///
    /// # Errors
    /// `EntryRefused` if no type of this name is registered.
    pub fn maker<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let py = name.py();
        self.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(maker) = self.by_name.bind(py).get_item(name)? {
            return Ok(maker);
        }
        Err(PyErr::from_value(
            self.object.bind(py).call_method1(intern!(py, "unregistered"), (name,))?,
        ))
    }

    /// Encodes a whole value: its code and its bytes; `None` to store it as a plain value.
    ///
    /// # Errors
    /// Exceptions of pickling, or of the codec.
    pub fn encode<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        entry: Entry<'_>,
    ) -> PyResult<Option<(u8, Bound<'py, PyBytes>)>> {
        let py = value.py();
        let _inside = ending::enter(py);
        let arguments = (value, entry.key_object(py), entry.id(py));
        let encoded = self.object.bind(py).call_method1(intern!(py, "encode"), arguments)?;
        if encoded.is_none() {
            return Ok(None);
        }
        encoded.extract().map(Some)
    }

    /// Decodes what [`Objects::encode`] returned.
    ///
    /// # Errors
    /// `EntryRefused`; exceptions of unpickling, or of the codec.
    pub fn decode<'py>(
        &self,
        py: Python<'py>,
        code: u8,
        bytes: &[u8],
        entry: Entry<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _inside = ending::enter(py);
        self.asked.fetch_add(1, Ordering::Relaxed);
        let arguments = (code, PyBytes::new(py, bytes), entry.key_object(py), entry.id(py));
        self.object.bind(py).call_method1(intern!(py, "decode"), arguments)
    }

    /// Compresses bytes; `None` if that makes them no shorter.
    ///
    /// # Errors
    /// Exceptions of the library.
    pub fn compress<'py>(
        &self,
        py: Python<'py>,
        bytes: &[u8],
    ) -> PyResult<Option<Compressed<'py>>> {
        let _inside = ending::enter(py);
        let bytes = (PyBytes::new(py, bytes),);
        let compressed = self.object.bind(py).call_method1(intern!(py, "compress"), bytes)?;
        if compressed.is_none() {
            return Ok(None);
        }
        compressed.extract().map(Some)
    }

    /// Returns the `len_bytes` that were compressed.
    ///
    /// # Errors
    /// `EntryCorrupt` if they are more or fewer; `EntryRefused` without the library.
    pub fn decompress<'py>(
        &self,
        py: Python<'py>,
        algorithm: u8,
        bytes: &[u8],
        len_bytes: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let _inside = ending::enter(py);
        let arguments = (algorithm, PyBytes::new(py, bytes), len_bytes);
        let raw = self.object.bind(py).call_method1(intern!(py, "decompress"), arguments)?;
        Ok(raw.cast_into::<PyBytes>()?)
    }
}

impl Entry<'_> {
    fn key_object<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.key)
    }

    fn id<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.cache.latest().id())
    }
}
