resource "kubernetes_namespace_v1" "shop" {
  metadata {
    name   = "shop"
    labels = { team = "shop" }
  }
}

resource "kubernetes_namespace" "extra" {
  count = var.copies
  metadata {
    name        = "extra-${count.index}"
    annotations = { note = "x" }
  }
}

resource "kubernetes_service_v1" "web" {
  count                  = var.copies
  wait_for_load_balancer = false
  metadata {
    name      = "web-${count.index}"
    namespace = local.ns
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
  count = var.copies
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
  count = var.copies
  metadata {
    name      = "settings-${count.index}"
    namespace = local.ns
  }
  data        = { "app.conf" = "a=1\nb=2\n", empty = "" }
  binary_data = { blob = "AAEC" }
}

resource "kubernetes_secret_v1" "credentials" {
  count = var.copies
  metadata {
    name      = "credentials-${count.index}"
    namespace = local.ns
  }
  data        = { token = "s3cret", user = "admin" }
  binary_data = { key = "AAECAw==" }
}

resource "kubernetes_service_account_v1" "runner" {
  count = var.copies
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
  count = var.copies
  metadata {
    name      = "reader-${count.index}"
    namespace = local.ns
  }
  rule {
    api_groups     = [""]
    resources      = ["pods", "services"]
    verbs          = ["get", "list"]
    resource_names = ["a", "b"]
  }
  rule {
    api_groups = ["apps"]
    resources  = ["deployments"]
    verbs      = ["get"]
  }
}

resource "kubernetes_cluster_role_v1" "viewer" {
  count = var.copies
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
  count = var.copies
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
  count = var.copies
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
  count = var.copies
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
  count = var.copies
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
          path      = "/api"
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
  count = var.copies
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
          cidr   = "10.0.0.0/8"
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
  count = var.copies
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
  count = var.copies
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
  count            = var.copies
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
  count = var.copies
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
  count = var.copies
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
  count = var.copies
  metadata {
    name = "high-${count.index}"
  }
  value       = 1000
  description = "for the shop"
}

resource "kubernetes_manifest" "extra" {
  count = var.copies
  manifest = {
    apiVersion = "v1"
    kind       = "ConfigMap"
    metadata   = { name = "manifest-${count.index}", namespace = "default", labels = { a = "b" } }
    data       = { k = "v" }
  }
}

resource "kubernetes_labels" "marked" {
  count       = var.copies
  api_version = "v1"
  kind        = "ConfigMap"
  metadata {
    name      = "marked-${count.index}"
    namespace = "default"
  }
  labels = { marked = "yes" }
}

resource "kubernetes_annotations" "noted" {
  count       = var.copies
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
  count = var.copies
  metadata {
    name      = "more-${count.index}"
    namespace = "default"
  }
  data = { added = "1" }
}

resource "kubernetes_secret_v1_data" "hidden" {
  count = var.copies
  metadata {
    name      = "hidden-${count.index}"
    namespace = "default"
  }
  data = { added = "s3cret" }
}

resource "kubernetes_env" "tuned" {
  count       = var.copies
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
  count = var.copies
  metadata {
    name      = "few-${count.index}"
    namespace = local.ns
  }
  spec {
    hard = { pods = "10", "requests.cpu" = "4" }
  }
}

resource "kubernetes_horizontal_pod_autoscaler_v1" "old" {
  count = var.copies
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
  count = var.copies
  metadata {
    name      = "written-${count.index}"
    namespace = local.ns
  }
  data_wo          = { token = "s3cret" }
  data_wo_revision = 1
}

resource "kubernetes_manifest" "widget" {
  count = var.copies
  manifest = {
    apiVersion = "example.com/v1"
    kind       = "Widget"
    metadata   = { name = "widget-${count.index}", namespace = "default" }
    spec = {
      size   = 3
      tags   = ["a", "b"]
      labels = { x = "y" }
      target = "50%"
      nested = { a = "1" }
      parts  = [{ name = "p", size = 1 }]
    }
  }
}

resource "kubernetes_manifest" "deployment" {
  count = var.copies
  manifest = {
    apiVersion = "apps/v1"
    kind       = "Deployment"
    metadata   = { name = "manifest-${count.index}", namespace = "default" }
    spec = {
      replicas = 2
      selector = { matchLabels = { app = "manifest" } }
      template = {
        metadata = { labels = { app = "manifest" } }
        spec = {
          containers = [{
            name      = "web"
            image     = "nginx:1.27"
            resources = { limits = { cpu = "500m" } }
            env       = [{ name = "A", value = "1" }]
            ports     = [{ containerPort = 80, protocol = "TCP" }]
          }]
        }
      }
    }
  }
}
