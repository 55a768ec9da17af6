//! What can be reached from elsewhere: Services and Ingresses.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{
    Parts,
    wellness::{Wellness, read},
};
use crate::{
    diff::{ServiceView, Text},
    types::{Facts, Health, LabelSet},
};

/// Facts about a Service.
pub(in crate::watch) fn of_service(spec: &ServiceView<'_>, parts: Parts<'_>) -> Facts {
    let address = load_balancer(parts.status);
    let is_balanced = spec.service_type.0 == "LoadBalancer";
    let endpoint = match &*spec.service_type.0 {
        "ExternalName" => Some(spec.external_name.0.as_ref().into()),
        _ => address.clone(),
    };
    Facts {
        endpoint,
        load_balancer: is_balanced,
        port: spec.first_port().and_then(|port| u16::try_from(port).ok()),
        labels: LabelSet::new(spec.selector()),
        ..balanced(is_balanced && address.is_none()).into_facts()
    }
}

/// Facts about an Ingress: the first host that it answers for, else the address of its load balancer.
pub(super) fn of_ingress(parts: Parts<'_>) -> Facts {
    #[derive(Default, Deserialize)]
    struct Spec<'a> {
        #[serde(borrow)]
        rules: Option<Vec<Rule<'a>>>,
        tls: Option<Vec<IgnoredAny>>,
    }
    #[derive(Deserialize)]
    struct Rule<'a> {
        #[serde(borrow, default)]
        host: Text<'a>,
    }
    let spec = read::<Spec<'_>>(parts.spec).unwrap_or_default();
    let address = load_balancer(parts.status);
    let wellness = balanced(address.is_none());
    let host = spec.rules.iter().flatten().map(|rule| &rule.host.0).find(|host| !host.is_empty());
    let is_encrypted = spec.tls.is_some_and(|tls| !tls.is_empty());
    Facts {
        endpoint: host.map(|host| host.as_ref().into()).or(address),
        port: Some(if is_encrypted { 443 } else { 80 }),
        ..wellness.into_facts()
    }
}

fn balanced(waits: bool) -> Wellness {
    if waits {
        Wellness::progressing(Health::Degraded, "waiting for the load balancer's address")
    } else {
        Wellness::healthy()
    }
}

/// The first address that a load balancer has.
fn load_balancer(status: Option<&RawValue>) -> Option<Box<str>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status<'a> {
        #[serde(borrow)]
        load_balancer: Option<LoadBalancer<'a>>,
    }
    #[derive(Deserialize)]
    struct LoadBalancer<'a> {
        #[serde(borrow, default)]
        ingress: Vec<Ingress<'a>>,
    }
    #[derive(Deserialize)]
    struct Ingress<'a> {
        #[serde(borrow, default)]
        hostname: Text<'a>,
        #[serde(borrow, default)]
        ip: Text<'a>,
    }
    let first = read::<Status<'_>>(status)?.load_balancer?.ingress.into_iter().next()?;
    let address = if first.hostname.0.is_empty() { first.ip } else { first.hostname };
    Some(address.0.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{check_of, facts_of};
    use crate::types::{Health, LabelSet, Phase};

    #[test]
    fn what_wants_a_load_balancer_waits_for_its_address() {
        let waiting = "waiting for the load balancer's address";
        let has = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}});
        let (balanced, inner) = (json!({"type": "LoadBalancer"}), json!({"type": "ClusterIP"}));
        let check = check_of("", "Service");
        check(&balanced, &json!({"loadBalancer": {}}), Health::Degraded, Some(Phase::Progressing), waiting);
        check(&balanced, &has, Health::Healthy, None, "");
        check(&inner, &json!({"loadBalancer": {}}), Health::Healthy, None, "");
        let check = check_of("networking.k8s.io", "Ingress");
        check(&json!({}), &json!({"loadBalancer": {}}), Health::Degraded, Some(Phase::Progressing), waiting);
        check(&json!({}), &has, Health::Healthy, None, "");
    }

    #[test]
    fn the_first_place_where_something_answers_is_told() {
        let host = json!({"loadBalancer": {"ingress": [{"hostname": "lb.example.com", "ip": ""}]}});
        let ingress = |spec| facts_of("networking.k8s.io", "Ingress", &spec, &host);
        let shop = ingress(
            json!({"rules": [{}, {"host": "shop.example.com"}], "tls": [{"hosts": ["shop.example.com"]}]}),
        );
        assert_eq!((shop.endpoint.as_deref(), shop.port), (Some("shop.example.com"), Some(443)));
        let bare = ingress(json!({"rules": [{}]}));
        assert_eq!((bare.endpoint.as_deref(), bare.port), (Some("lb.example.com"), Some(80)));
        let spec = json!({"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 443}]});
        let service = facts_of("", "Service", &spec, &host);
        assert_eq!((service.endpoint.as_deref(), service.port), (Some("lb.example.com"), Some(443)));
        assert!(service.load_balancer && service.labels == LabelSet::new([("app", "web")]));
        let name = json!({"type": "ExternalName", "externalName": "db.example.com"});
        assert_eq!(facts_of("", "Service", &name, &json!({})).endpoint.as_deref(), Some("db.example.com"));
    }
}
