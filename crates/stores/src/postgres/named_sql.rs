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
    /// Binds a name to a value. Every bound name must be used: PostgreSQL infers types from use.
    pub(super) fn bind(&mut self, name: &'static str, value: Param<'p>) {
        self.names.push(name);
        self.params.push(value);
    }

    /// Appends text. The server rejects a name that is not bound, as it stays in braces.
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
    fn names_become_numbers_and_unbound_names_stay() {
        let mut sql = NamedSql::default();
        sql.bind("key", &1_i64);
        sql.bind("id", &"x");
        sql.push("SELECT {id}::text, {key}");
        sql.push(" WHERE {id} = {other}");
        assert_eq!(sql.text(), "SELECT $2::text, $1 WHERE $2 = {other}");
        assert_eq!(sql.params().len(), 2);
    }
}
