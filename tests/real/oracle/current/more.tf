resource "kubernetes_replication_controller_v1" "web" {
  count = lookup(var.copies, "kubernetes_replication_controller_v1.web", 1)
  metadata {
    name      = "web-${count.index}"
    namespace = local.ns
    labels    = { app = "web" }
  }
  spec {
    replicas          = 0
    min_ready_seconds = 2
    selector          = { app = "web" }
    template {
      metadata {
        labels = { app = "web" }
      }
      spec {
        container {
          name  = "web"
          image = "nginx:1.27"
        }
      }
    }
  }
}

resource "kubernetes_persistent_volume_v1" "disk" {
  count = lookup(var.copies, "kubernetes_persistent_volume_v1.disk", 1)
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

resource "kubernetes_persistent_volume_v1" "path" {
  count = lookup(var.copies, "kubernetes_persistent_volume_v1.path", 1)
  metadata {
    name = "path-${count.index}"
  }
  spec {
    capacity     = { storage = "1Gi" }
    access_modes = ["ReadWriteOnce"]
    persistent_volume_source {
      host_path {
        path = "/data"
      }
    }
  }
}

resource "kubernetes_endpoints_v1" "outside" {
  count = lookup(var.copies, "kubernetes_endpoints_v1.outside", 1)
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

resource "kubernetes_endpoint_slice_v1" "outside" {
  count = lookup(var.copies, "kubernetes_endpoint_slice_v1.outside", 1)
  metadata {
    name      = "outside-${count.index}"
    namespace = local.ns
  }
  address_type = "IPv4"
  endpoint {
    addresses = ["192.0.2.1"]
    hostname  = "one"
    node_name = "node-1"
    zone      = "a"
    condition {
      ready = true
    }
  }
  port {
    name         = "http"
    port         = "80"
    app_protocol = "http"
  }
}

resource "kubernetes_ingress_class_v1" "mine" {
  count = lookup(var.copies, "kubernetes_ingress_class_v1.mine", 1)
  metadata {
    name = "mine-${count.index}"
  }
  spec {
    controller = "example.com/ingress"
    parameters {
      api_group = "example.com"
      kind      = "Widget"
      name      = "x"
      scope     = "Cluster"
    }
  }
}

resource "kubernetes_mutating_webhook_configuration_v1" "inject" {
  count = lookup(var.copies, "kubernetes_mutating_webhook_configuration_v1.inject", 1)
  metadata {
    name = "inject-${count.index}"
  }
  webhook {
    name                      = "inject.example.com"
    admission_review_versions = ["v1"]
    side_effects              = "None"
    failure_policy            = "Ignore"
    client_config {
      service {
        namespace = "nowhere"
        name      = "hook"
        path      = "/inject"
      }
    }
    namespace_selector {
      match_labels = { inject = "yes" }
    }
    rule {
      api_groups   = ["nothing.example.com"]
      api_versions = ["v1"]
      operations   = ["CREATE"]
      resources    = ["things"]
      scope        = "Namespaced"
    }
  }
}

resource "kubernetes_validating_webhook_configuration_v1" "check" {
  count = lookup(var.copies, "kubernetes_validating_webhook_configuration_v1.check", 1)
  metadata {
    name = "check-${count.index}"
  }
  webhook {
    name                      = "check.example.com"
    admission_review_versions = ["v1"]
    side_effects              = "None"
    timeout_seconds           = 5
    client_config {
      url = "https://192.0.2.1/check"
    }
    rule {
      api_groups   = ["nothing.example.com"]
      api_versions = ["v1"]
      operations   = ["CREATE", "UPDATE"]
      resources    = ["things"]
    }
  }
}

resource "kubernetes_csi_driver_v1" "disk" {
  count = lookup(var.copies, "kubernetes_csi_driver_v1.disk", 1)
  metadata {
    name = "disk-${count.index}.example.com"
  }
  spec {
    attach_required        = true
    pod_info_on_mount      = false
    volume_lifecycle_modes = ["Persistent"]
  }
}

resource "kubernetes_runtime_class_v1" "safe" {
  count = lookup(var.copies, "kubernetes_runtime_class_v1.safe", 1)
  metadata {
    name = "safe-${count.index}"
  }
  handler = "runsc"
}

resource "kubernetes_api_service_v1" "none" {
  count = lookup(var.copies, "kubernetes_api_service_v1.none", 1)
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
