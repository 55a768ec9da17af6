resource "kubernetes_namespace_v1" "shop" {
  metadata {
    name   = "shop"
    labels = { team = "shop" }
  }
}

resource "kubernetes_namespace" "extra" {
  count = lookup(var.copies, "kubernetes_namespace.extra", 1)
  metadata {
    name        = "extra-${count.index}"
    annotations = { note = "x" }
  }
}

resource "kubernetes_service_v1" "web" {
  count                  = lookup(var.copies, "kubernetes_service_v1.web", 1)
  wait_for_load_balancer = false
  metadata {
    name      = "web-${count.index}"
    namespace = local.ns
    labels    = var.changed ? { team = "shop" } : {}
  }
  spec {
    type                        = "LoadBalancer"
    selector                    = { app = "full" }
    session_affinity            = "ClientIP"
    external_ips                = ["192.0.2.1", "192.0.2.2"]
    load_balancer_source_ranges = ["10.0.0.0/8"]
    external_traffic_policy     = "Local"
    session_affinity_config {
      client_ip {
        timeout_seconds = 600
      }
    }
    port {
      name        = "http"
      port        = 80
      target_port = "http"
    }
    port {
      name         = "dns"
      port         = 53
      target_port  = "5353"
      protocol     = "UDP"
      app_protocol = "example.com/dns"
    }
  }
}

resource "kubernetes_service" "inner" {
  count = lookup(var.copies, "kubernetes_service.inner", 1)
  metadata {
    name      = "inner-${count.index}"
    namespace = local.ns
  }
  spec {
    selector = { app = "plain" }
    port {
      port = 80
    }
  }
}

resource "kubernetes_config_map_v1" "settings" {
  count = lookup(var.copies, "kubernetes_config_map_v1.settings", 1)
  metadata {
    name      = "settings-${count.index}"
    namespace = local.ns
  }
  data        = { "app.conf" = var.changed ? "a=3\n" : "a=1\nb=2\n", empty = "" }
  binary_data = { blob = "AAEC" }
}

resource "kubernetes_secret_v1" "credentials" {
  count = lookup(var.copies, "kubernetes_secret_v1.credentials", 1)
  metadata {
    name      = "credentials-${count.index}"
    namespace = local.ns
  }
  data        = { token = var.changed ? "other" : "s3cret", user = "admin" }
  binary_data = { key = "AAECAw==" }
}

resource "kubernetes_service_account_v1" "runner" {
  count = lookup(var.copies, "kubernetes_service_account_v1.runner", 1)
  metadata {
    name      = "runner-${count.index}"
    namespace = local.ns
  }
  automount_service_account_token = false
  image_pull_secret {
    name = "registry"
  }
  secret {
    name = "credentials"
  }
}

resource "kubernetes_role_v1" "reader" {
  count = lookup(var.copies, "kubernetes_role_v1.reader", 1)
  metadata {
    name      = "reader-${count.index}"
    namespace = local.ns
  }
  rule {
    api_groups     = [""]
    resources      = ["pods", "services"]
    verbs          = var.changed ? ["get", "list", "watch"] : ["get", "list"]
    resource_names = ["a", "b"]
  }
  rule {
    api_groups = ["apps"]
    resources  = ["deployments"]
    verbs      = ["get"]
  }
}

resource "kubernetes_cluster_role_v1" "viewer" {
  count = lookup(var.copies, "kubernetes_cluster_role_v1.viewer", 1)
  metadata {
    name = "viewer-${count.index}"
  }
  rule {
    api_groups = [""]
    resources  = ["nodes", "pods"]
    verbs      = ["get", "list"]
  }
  rule {
    non_resource_urls = ["/metrics"]
    verbs             = ["get"]
  }
}

resource "kubernetes_cluster_role" "sum" {
  count = lookup(var.copies, "kubernetes_cluster_role.sum", 1)
  metadata {
    name = "sum-${count.index}"
  }
  aggregation_rule {
    cluster_role_selectors {
      match_labels = { sum = "yes" }
    }
  }
}

resource "kubernetes_role_binding_v1" "reader" {
  count = lookup(var.copies, "kubernetes_role_binding_v1.reader", 1)
  metadata {
    name      = "reader-${count.index}"
    namespace = local.ns
  }
  role_ref {
    api_group = "rbac.authorization.k8s.io"
    kind      = "Role"
    name      = "reader"
  }
  subject {
    kind      = "ServiceAccount"
    name      = "runner"
    namespace = local.ns
  }
  subject {
    kind      = "User"
    name      = "jane"
    api_group = "rbac.authorization.k8s.io"
  }
}

resource "kubernetes_cluster_role_binding_v1" "viewer" {
  count = lookup(var.copies, "kubernetes_cluster_role_binding_v1.viewer", 1)
  metadata {
    name = "viewer-${count.index}"
  }
  role_ref {
    api_group = "rbac.authorization.k8s.io"
    kind      = "ClusterRole"
    name      = "viewer"
  }
  subject {
    kind      = "Group"
    name      = "ops"
    api_group = "rbac.authorization.k8s.io"
  }
}

resource "kubernetes_ingress_v1" "web" {
  count = lookup(var.copies, "kubernetes_ingress_v1.web", 1)
  metadata {
    name        = "web-${count.index}"
    namespace   = local.ns
    annotations = { "nginx.ingress.kubernetes.io/rewrite-target" = "/" }
  }
  spec {
    ingress_class_name = "nginx"
    default_backend {
      service {
        name = "web"
        port {
          number = 80
        }
      }
    }
    rule {
      host = "shop.example.com"
      http {
        path {
          path      = var.changed ? "/api/v2" : "/api"
          path_type = "Prefix"
          backend {
            service {
              name = "api"
              port {
                name = "http"
              }
            }
          }
        }
      }
    }
    tls {
      hosts       = ["shop.example.com"]
      secret_name = "tls"
    }
  }
}

resource "kubernetes_network_policy_v1" "deny" {
  count = lookup(var.copies, "kubernetes_network_policy_v1.deny", 1)
  metadata {
    name      = "deny-${count.index}"
    namespace = local.ns
  }
  spec {
    pod_selector {
      match_labels = { app = "full" }
    }
    policy_types = ["Ingress", "Egress"]
    ingress {
      from {
        namespace_selector {}
      }
      from {
        ip_block {
          cidr   = var.changed ? "10.0.0.0/9" : "10.0.0.0/8"
          except = ["10.1.0.0/16"]
        }
      }
      ports {
        port     = "http"
        protocol = "TCP"
      }
    }
    egress {}
  }
}

resource "kubernetes_horizontal_pod_autoscaler_v2" "web" {
  count = lookup(var.copies, "kubernetes_horizontal_pod_autoscaler_v2.web", 1)
  metadata {
    name      = "web-${count.index}"
    namespace = local.ns
  }
  spec {
    min_replicas = 2
    max_replicas = 9
    scale_target_ref {
      api_version = "apps/v1"
      kind        = "Deployment"
      name        = "full"
    }
    metric {
      type = "Resource"
      resource {
        name = "cpu"
        target {
          type                = "Utilization"
          average_utilization = 70
        }
      }
    }
    metric {
      type = "Pods"
      pods {
        metric {
          name = "requests"
        }
        target {
          type          = "AverageValue"
          average_value = "100"
        }
      }
    }
    behavior {
      scale_down {
        stabilization_window_seconds = 300
        select_policy                = "Min"
        policy {
          type           = "Percent"
          value          = 10
          period_seconds = 60
        }
      }
    }
  }
}

resource "kubernetes_pod_disruption_budget_v1" "web" {
  count = lookup(var.copies, "kubernetes_pod_disruption_budget_v1.web", 1)
  metadata {
    name      = "web-${count.index}"
    namespace = local.ns
  }
  spec {
    min_available = "50%"
    selector {
      match_labels = { app = "full" }
    }
  }
}

resource "kubernetes_persistent_volume_claim_v1" "data" {
  count            = lookup(var.copies, "kubernetes_persistent_volume_claim_v1.data", 1)
  wait_until_bound = false
  metadata {
    name      = "data-${count.index}"
    namespace = local.ns
  }
  spec {
    access_modes       = ["ReadWriteOnce", "ReadOnlyMany"]
    storage_class_name = "fast"
    resources {
      requests = { storage = "5Gi" }
    }
  }
}

resource "kubernetes_limit_range_v1" "small" {
  count = lookup(var.copies, "kubernetes_limit_range_v1.small", 1)
  metadata {
    name      = "small-${count.index}"
    namespace = local.ns
  }
  spec {
    limit {
      type            = "Container"
      default         = { cpu = "500m", memory = "256Mi" }
      default_request = { cpu = "100m" }
      max             = { cpu = "2" }
    }
  }
}

resource "kubernetes_storage_class_v1" "fast" {
  count = lookup(var.copies, "kubernetes_storage_class_v1.fast", 1)
  metadata {
    name = "fast-${count.index}"
  }
  storage_provisioner    = "example.com/disk"
  reclaim_policy         = "Retain"
  volume_binding_mode    = "WaitForFirstConsumer"
  allow_volume_expansion = true
  mount_options          = ["noatime", "discard"]
  parameters             = { type = "ssd" }
  allowed_topologies {
    match_label_expressions {
      key    = "zone"
      values = ["a", "b"]
    }
  }
}

resource "kubernetes_priority_class_v1" "high" {
  count = lookup(var.copies, "kubernetes_priority_class_v1.high", 1)
  metadata {
    name = "high-${count.index}"
  }
  value       = 1000
  description = "for the shop"
}

resource "kubernetes_labels" "marked" {
  force       = true
  count       = lookup(var.copies, "kubernetes_labels.marked", 1)
  api_version = "v1"
  kind        = "ConfigMap"
  metadata {
    name      = "marked-${count.index}"
    namespace = "default"
  }
  labels = { marked = var.changed ? "changed" : "yes" }
}

resource "kubernetes_annotations" "noted" {
  force       = true
  count       = lookup(var.copies, "kubernetes_annotations.noted", 1)
  api_version = "apps/v1"
  kind        = "Deployment"
  metadata {
    name      = "noted-${count.index}"
    namespace = "default"
  }
  annotations          = { noted = "yes" }
  template_annotations = { inside = "yes" }
}

resource "kubernetes_config_map_v1_data" "more" {
  force = true
  count = lookup(var.copies, "kubernetes_config_map_v1_data.more", 1)
  metadata {
    name      = "more-${count.index}"
    namespace = "default"
  }
  data = { added = var.changed ? "changed" : "1" }
}

resource "kubernetes_secret_v1_data" "hidden" {
  force = true
  count = lookup(var.copies, "kubernetes_secret_v1_data.hidden", 1)
  metadata {
    name      = "hidden-${count.index}"
    namespace = "default"
  }
  data = { added = "s3cret" }
}

resource "kubernetes_env" "tuned" {
  force       = true
  count       = lookup(var.copies, "kubernetes_env.tuned", 1)
  api_version = "apps/v1"
  kind        = "Deployment"
  container   = "web"
  metadata {
    name      = "tuned-${count.index}"
    namespace = "default"
  }
  env {
    name  = "LEVEL"
    value = "3"
  }
  env {
    name = "OWNED"
    value_from {
      secret_key_ref {
        name = "hidden"
        key  = "own"
      }
    }
  }
}

resource "kubernetes_resource_quota_v1" "few" {
  count = lookup(var.copies, "kubernetes_resource_quota_v1.few", 1)
  metadata {
    name      = "few-${count.index}"
    namespace = local.ns
  }
  spec {
    hard = { pods = "10", "requests.cpu" = "4" }
  }
}

resource "kubernetes_horizontal_pod_autoscaler_v1" "old" {
  count = lookup(var.copies, "kubernetes_horizontal_pod_autoscaler_v1.old", 1)
  metadata {
    name      = "old-${count.index}"
    namespace = local.ns
  }
  spec {
    max_replicas                      = 5
    target_cpu_utilization_percentage = 80
    scale_target_ref {
      api_version = "apps/v1"
      kind        = "Deployment"
      name        = "plain"
    }
  }
}

resource "kubernetes_secret" "written" {
  count = lookup(var.copies, "kubernetes_secret.written", 1)
  metadata {
    name      = "written-${count.index}"
    namespace = local.ns
  }
  data_wo          = { token = "s3cret" }
  data_wo_revision = 1
}

# One goes and one comes with the change.
resource "kubernetes_config_map_v1" "before" {
  count = var.changed ? 0 : 1
  metadata {
    name      = "before"
    namespace = local.ns
  }
}

resource "kubernetes_config_map_v1" "after" {
  count = var.changed ? 1 : 0
  metadata {
    name      = "after"
    namespace = local.ns
  }
  data = { a = "b" }
}
