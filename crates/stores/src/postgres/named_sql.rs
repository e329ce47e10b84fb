//! SQL with named parameters: `{name}` in the text becomes `$n`.

use super::pool::Param;

/// A statement under construction. A name must be bound before the text that uses it.
#[derive(Default)]
pub(super) struct NamedSql<'p> {
    text: String,
    names: Vec<&'static str>,
    params: Vec<Param<'p>>,
}

impl<'p> NamedSql<'p> {
    /// Binds a name to a value. The text must use every bound name, because PostgreSQL infers the
    /// type of a parameter from its use.
    pub(super) fn bind(&mut self, name: &'static str, value: Param<'p>) {
        self.names.push(name);
        self.params.push(value);
    }

    /// Appends text and replaces the names in it. A name that is not bound stays in braces, so
    /// PostgreSQL rejects the statement.
    pub(super) fn push(&mut self, text: &str) {
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            self.text.push_str(before);
            let (name, behind) = after.split_once('}').unwrap_or((after, ""));
            match self.names.iter().position(|bound| *bound == name) {
                Some(at) => self.text.push_str(&format!("${}", at + 1)),
                None => self.text.push_str(&format!("{{{name}}}")),
            }
            rest = behind;
        }
        self.text.push_str(rest);
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn params(&self) -> &[Param<'p>] {
        &self.params
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_numbers_bound_names_and_keeps_unbound_names() {
        let mut sql = NamedSql::default();
        sql.bind("key", &1_i64);
        sql.bind("id", &"x");
        sql.push("SELECT {id}::text, {key}");
        sql.push(" WHERE {id} = {other}");
        assert_eq!(sql.text(), "SELECT $2::text, $1 WHERE $2 = {other}");
        assert_eq!(sql.params().len(), 2);
    }
}
