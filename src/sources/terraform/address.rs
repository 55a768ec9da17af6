//! How Terraform calls a resource.

use serde_json::Value;

/// `module.shop["eu"].kubernetes_deployment_v1.web[0]`.
pub(super) fn address(
    module: Option<&str>,
    resource_type: &str,
    name: &str,
    index: Option<&Value>,
) -> Box<str> {
    let module =
        module.filter(|module| !module.is_empty()).map_or_else(String::new, |module| format!("{module}."));
    let index = match index {
        None | Some(Value::Null) => String::new(),
        // A text is written with quotes, a number without.
        Some(index) => format!("[{index}]"),
    };
    format!("{module}{resource_type}.{name}{index}").into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::address;

    #[test]
    fn addresses_are_written_as_terraform_writes_them() {
        assert_eq!(&*address(None, "a_b", "c", None), "a_b.c");
        assert_eq!(
            &*address(Some("module.x[\"eu\"]"), "a_b", "c", Some(&json!(0))),
            "module.x[\"eu\"].a_b.c[0]"
        );
        assert_eq!(&*address(Some(""), "a_b", "c", Some(&json!("k"))), "a_b.c[\"k\"]");
    }
}
