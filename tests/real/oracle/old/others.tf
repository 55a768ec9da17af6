resource "kubernetes_namespace" "extra" {
  count = lookup(var.copies, "kubernetes_namespace.extra", 1)
  metadata {
    name        = "extra-${count.index}"
    annotations = { note = "x" }
  }
}

resource "kubernetes_service" "web" {
  count = lookup(var.copies, "kubernetes_service.web", 1)
  metadata {
    name      = "web-${count.index}"
    namespace = local.ns
  }
  spec {
    type                    = "NodePort"
    selector                = { app = "full" }
    session_affinity        = "ClientIP"
    external_ips            = ["192.0.2.1", "192.0.2.2"]
    external_traffic_policy = "Local"
    port {
      name        = "http"
      port        = 80
      target_port = "http"
    }
    port {
      name        = "dns"
      port        = 53
      target_port = "5353"
      protocol    = "UDP"
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

resource "kubernetes_config_map" "settings" {
  count = lookup(var.copies, "kubernetes_config_map.settings", 1)
  metadata {
    name      = "settings-${count.index}"
    namespace = local.ns
  }
  data        = { "app.conf" = "a=1\nb=2\n", empty = "" }
  binary_data = { blob = "AAEC" }
}

resource "kubernetes_secret" "credentials" {
  count = lookup(var.copies, "kubernetes_secret.credentials", 1)
  metadata {
    name      = "credentials-${count.index}"
    namespace = local.ns
  }
  data = { token = "s3cret", user = "admin" }
}

resource "kubernetes_service_account" "runner" {
  count = lookup(var.copies, "kubernetes_service_account.runner", 1)
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

resource "kubernetes_role" "reader" {
  count = lookup(var.copies, "kubernetes_role.reader", 1)
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

resource "kubernetes_cluster_role" "viewer" {
  count = lookup(var.copies, "kubernetes_cluster_role.viewer", 1)
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

resource "kubernetes_role_binding" "reader" {
  count = lookup(var.copies, "kubernetes_role_binding.reader", 1)
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

resource "kubernetes_cluster_role_binding" "viewer" {
  count = lookup(var.copies, "kubernetes_cluster_role_binding.viewer", 1)
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

resource "kubernetes_network_policy" "deny" {
  count = lookup(var.copies, "kubernetes_network_policy.deny", 1)
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

resource "kubernetes_horizontal_pod_autoscaler" "old" {
  count = lookup(var.copies, "kubernetes_horizontal_pod_autoscaler.old", 1)
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

resource "kubernetes_persistent_volume_claim" "data" {
  count            = lookup(var.copies, "kubernetes_persistent_volume_claim.data", 1)
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

resource "kubernetes_persistent_volume" "disk" {
  count = lookup(var.copies, "kubernetes_persistent_volume.disk", 1)
  metadata {
    name = "disk-${count.index}"
  }
  spec {
    capacity                         = { storage = "10Gi" }
    access_modes                     = ["ReadWriteOnce", "ReadOnlyMany"]
    storage_class_name               = "fast"
    persistent_volume_reclaim_policy = "Retain"
    mount_options                    = ["noatime"]
    node_affinity {
      required {
        node_selector_term {
          match_expressions {
            key      = "zone"
            operator = "In"
            values   = ["a", "b"]
          }
        }
      }
    }
    persistent_volume_source {
      csi {
        driver            = "disk.example.com"
        volume_handle     = "disk-1"
        fs_type           = "ext4"
        volume_attributes = { tier = "ssd" }
        node_publish_secret_ref {
          name      = "credentials"
          namespace = "shop"
        }
      }
    }
  }
}

resource "kubernetes_limit_range" "small" {
  count = lookup(var.copies, "kubernetes_limit_range.small", 1)
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

resource "kubernetes_resource_quota" "few" {
  count = lookup(var.copies, "kubernetes_resource_quota.few", 1)
  metadata {
    name      = "few-${count.index}"
    namespace = local.ns
  }
  spec {
    hard = { pods = "10", "requests.cpu" = "4" }
  }
}

resource "kubernetes_storage_class" "fast" {
  count = lookup(var.copies, "kubernetes_storage_class.fast", 1)
  metadata {
    name = "fast-${count.index}"
  }
  storage_provisioner    = "disk.example.com"
  reclaim_policy         = "Retain"
  volume_binding_mode    = "WaitForFirstConsumer"
  allow_volume_expansion = true
  mount_options          = ["noatime", "discard"]
  parameters             = { type = "ssd" }
}

resource "kubernetes_priority_class" "high" {
  count = lookup(var.copies, "kubernetes_priority_class.high", 1)
  metadata {
    name = "high-${count.index}"
  }
  value       = 1000
  description = "for the shop"
}

resource "kubernetes_endpoints" "outside" {
  count = lookup(var.copies, "kubernetes_endpoints.outside", 1)
  metadata {
    name      = "outside-${count.index}"
    namespace = local.ns
  }
  subset {
    address {
      ip = "192.0.2.1"
    }
    address {
      ip       = "192.0.2.2"
      hostname = "two"
    }
    port {
      name     = "http"
      port     = 80
      protocol = "TCP"
    }
  }
}

resource "kubernetes_api_service" "none" {
  count = lookup(var.copies, "kubernetes_api_service.none", 1)
  metadata {
    name = "v${count.index + 1}.nothing.example.com"
  }
  spec {
    group                  = "nothing.example.com"
    version                = "v${count.index + 1}"
    group_priority_minimum = 100
    version_priority       = 10
  }
}

# The same without a version in their names.
