//! What people see in a browser.

mod landing;

pub(super) use landing::landing;
