# The same without a version in their names.

resource "kubernetes_config_map" "plain" {
  count = lookup(var.copies, "kubernetes_config_map.plain", 1)
  metadata {
    name      = "unversioned-${count.index}"
    namespace = local.ns
  }
  data        = { "app.conf" = "a=1\nb=2\n", empty = "" }
  binary_data = { blob = "AAEC" }
}

resource "kubernetes_service_account" "plain" {
  count = lookup(var.copies, "kubernetes_service_account.plain", 1)
  metadata {
    name      = "unversioned-${count.index}"
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

resource "kubernetes_role" "plain" {
  count = lookup(var.copies, "kubernetes_role.plain", 1)
  metadata {
    name      = "unversioned-${count.index}"
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

resource "kubernetes_role_binding" "plain" {
  count = lookup(var.copies, "kubernetes_role_binding.plain", 1)
  metadata {
    name      = "unversioned-${count.index}"
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

resource "kubernetes_cluster_role_binding" "plain" {
  count = lookup(var.copies, "kubernetes_cluster_role_binding.plain", 1)
  metadata {
    name = "unversioned-${count.index}"
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

resource "kubernetes_network_policy" "plain" {
  count = lookup(var.copies, "kubernetes_network_policy.plain", 1)
  metadata {
    name      = "unversioned-${count.index}"
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

resource "kubernetes_job" "plain" {
  count               = lookup(var.copies, "kubernetes_job.plain", 1)
  wait_for_completion = false
  metadata {
    name      = "unversioned-${count.index}"
    namespace = local.ns
  }
  spec {
    backoff_limit              = 4
    parallelism                = 2
    completions                = 4
    ttl_seconds_after_finished = "600"
    template {
      metadata {}
      spec {
        restart_policy = "Never"
        container {
          name  = "task"
          image = "busybox:1.36"
        }
      }
    }
  }
}

resource "kubernetes_persistent_volume_claim" "plain" {
  count            = lookup(var.copies, "kubernetes_persistent_volume_claim.plain", 1)
  wait_until_bound = false
  metadata {
    name      = "unversioned-${count.index}"
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

resource "kubernetes_resource_quota" "plain" {
  count = lookup(var.copies, "kubernetes_resource_quota.plain", 1)
  metadata {
    name      = "unversioned-${count.index}"
    namespace = local.ns
  }
  spec {
    hard = { pods = "10", "requests.cpu" = "4" }
  }
}

resource "kubernetes_limit_range" "plain" {
  count = lookup(var.copies, "kubernetes_limit_range.plain", 1)
  metadata {
    name      = "unversioned-${count.index}"
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

resource "kubernetes_storage_class" "plain" {
  count = lookup(var.copies, "kubernetes_storage_class.plain", 1)
  metadata {
    name = "unversioned-${count.index}"
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

resource "kubernetes_priority_class" "plain" {
  count = lookup(var.copies, "kubernetes_priority_class.plain", 1)
  metadata {
    name = "unversioned-${count.index}"
  }
  value       = 1000
  description = "for the shop"
}

resource "kubernetes_daemonset" "plain" {
  count            = lookup(var.copies, "kubernetes_daemonset.plain", 1)
  wait_for_rollout = false
  metadata {
    name      = "unversioned-${count.index}"
    namespace = local.ns
  }
  spec {
    selector {
      match_labels = { app = "agent" }
    }
    strategy {
      type = "RollingUpdate"
      rolling_update {
        max_unavailable = "2"
      }
    }
    template {
      metadata {
        labels = { app = "agent" }
      }
      spec {
        host_pid     = true
        host_network = true
        container {
          name  = "agent"
          image = "agent:2"
        }
      }
    }
  }
}

resource "kubernetes_horizontal_pod_autoscaler" "plain" {
  count = lookup(var.copies, "kubernetes_horizontal_pod_autoscaler.plain", 1)
  metadata {
    name      = "unversioned-${count.index}"
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
