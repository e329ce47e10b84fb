//! Runs the session contract tests of `retain_testkit` for every store.

mod in_memory {
    retain_testkit::session_promises!(crate::stores::in_memory());
}

#[cfg(feature = "postgres")]
mod postgres {
    retain_testkit::session_promises!(crate::stores::postgres(),
        needs: retain_testkit::postgres::is_there());
}

#[cfg(feature = "sqlite")]
mod sqlite {
    retain_testkit::session_promises!(crate::stores::sqlite());
}

#[cfg(feature = "sqlite")]
mod sqlite_in_memory {
    retain_testkit::session_promises!(crate::stores::sqlite_in_memory());
}
