//! retain
