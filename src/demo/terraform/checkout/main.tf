# One region's checkout.

variable "namespace" { type = string }
variable "region" { type = string }
variable "replicas" { type = number }
variable "labels" { type = map(string) }
variable "settings" { type = string }
variable "secrets" { type = string }

locals {
  name = "checkout-${var.region}"
}

output "name" {
  value = kubernetes_deployment_v1.api.metadata[0].name
}

resource "kubernetes_deployment_v1" "api" {
  # Nobody runs pods where the state is made.
  wait_for_rollout = false
  metadata {
    name      = local.name
    namespace = var.namespace
    labels    = merge(var.labels, { app = local.name })
  }
  spec {
    replicas = var.replicas
    selector {
      match_labels = { app = local.name }
    }
    template {
      metadata {
        labels = merge(var.labels, { app = local.name })
      }
      spec {
        container {
          name  = "api"
          image = "registry.example/checkout-api:3.1.0"
          port {
            container_port = 8080
          }
          env {
            name  = "REGION"
            value = var.region
          }
          env_from {
            config_map_ref {
              name = var.settings
            }
          }
          env_from {
            secret_ref {
              name = var.secrets
            }
          }
          resources {
            requests = { cpu = "100m", memory = "128Mi" }
            limits   = { memory = "256Mi" }
          }
          readiness_probe {
            http_get {
              path = "/healthz"
              port = 8080
            }
          }
        }
      }
    }
  }
}
