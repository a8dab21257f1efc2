//! Uploads of files in one request, and the temporary files that they are written to.

pub mod desktop_upload;
pub mod receive;
pub mod temp_file;
pub mod upload;
pub mod version;
