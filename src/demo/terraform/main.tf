# What the demo's namespace `payments` has from Terraform. `make demo-state` applies it to a real API server and
# keeps the state and the objects that come of it.

terraform {
  required_providers {
    kubernetes = { source = "hashicorp/kubernetes", version = "3.2.1" }
  }
  backend "kubernetes" {
    secret_suffix = "payments"
    namespace     = "terraform"
  }
}

provider "kubernetes" {}

locals {
  namespace = "payments"
  labels    = { "app.kubernetes.io/part-of" = "payments" }
}

module "checkout" {
  source    = "./checkout"
  for_each  = { eu = 2, us = 3 }
  namespace = local.namespace
  region    = each.key
  replicas  = each.value
  labels    = local.labels
  settings  = kubernetes_config_map_v1.rates.metadata[0].name
  secrets   = kubernetes_secret_v1.psp.metadata[0].name
}

resource "kubernetes_deployment_v1" "refunds" {
  # Nobody runs pods where the state is made.
  wait_for_rollout = false
  metadata {
    name      = "refunds"
    namespace = local.namespace
    labels    = merge(local.labels, { app = "refunds" })
  }
  spec {
    replicas = 2
    selector {
      match_labels = { app = "refunds" }
    }
    template {
      metadata {
        labels = merge(local.labels, { app = "refunds" })
      }
      spec {
        container {
          name  = "refunds"
          image = "registry.example/refunds:1.8.0"
          port {
            container_port = 8092
          }
          env {
            name  = "LOG_LEVEL"
            value = "info"
          }
          resources {
            requests = { cpu = "50m", memory = "64Mi" }
            limits   = { memory = "128Mi" }
          }
        }
      }
    }
  }
}

resource "kubernetes_service_v1" "refunds" {
  metadata {
    name      = "refunds"
    namespace = local.namespace
    labels    = local.labels
  }
  spec {
    selector = { app = "refunds" }
    port {
      name        = "http"
      port        = 80
      target_port = 8092
    }
  }
}

resource "kubernetes_config_map_v1" "rates" {
  metadata {
    name      = "exchange-rates"
    namespace = local.namespace
    labels    = local.labels
  }
  data = {
    EUR = "1.0000"
    USD = "1.0843"
    GBP = "0.8561"
  }
}

resource "kubernetes_secret_v1" "psp" {
  metadata {
    name      = "psp-credentials"
    namespace = local.namespace
    labels    = local.labels
  }
  data = {
    username = "shop"
    password = "only-a-demo"
  }
}

resource "kubernetes_network_policy_v1" "refunds" {
  metadata {
    name      = "refunds"
    namespace = local.namespace
    labels    = local.labels
  }
  spec {
    pod_selector {
      match_labels = { app = "refunds" }
    }
    policy_types = ["Ingress"]
    ingress {
      from {
        pod_selector {
          match_labels = { app = "checkout-eu" }
        }
      }
      ports {
        port     = "8092"
        protocol = "TCP"
      }
    }
  }
}

resource "kubernetes_horizontal_pod_autoscaler_v2" "checkout_us" {
  metadata {
    name      = "checkout-us"
    namespace = local.namespace
    labels    = local.labels
  }
  spec {
    min_replicas = 3
    max_replicas = 8
    scale_target_ref {
      api_version = "apps/v1"
      kind        = "Deployment"
      name        = module.checkout["us"].name
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
  }
}
