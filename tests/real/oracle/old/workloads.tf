locals {
  ns = kubernetes_namespace.shop.metadata[0].name
}

resource "kubernetes_namespace" "shop" {
  metadata {
    name = "shop"
  }
}

resource "kubernetes_deployment" "full" {
  count            = lookup(var.copies, "kubernetes_deployment.full", 1)
  wait_for_rollout = false
  metadata {
    name        = "full-${count.index}"
    namespace   = local.ns
    labels      = { app = "full", "app.kubernetes.io/name" = "full" }
    annotations = { owner = "shop", "example.com/note" = "a \"quoted\" note" }
  }
  spec {
    replicas                  = 3
    min_ready_seconds         = 5
    progress_deadline_seconds = 300
    revision_history_limit    = 4
    strategy {
      type = "RollingUpdate"
      rolling_update {
        max_surge       = "1"
        max_unavailable = "25%"
      }
    }
    selector {
      match_labels = { app = "full" }
      match_expressions {
        key      = "tier"
        operator = "In"
        values   = ["web", "api"]
      }
    }
    template {
      metadata {
        labels      = { app = "full", tier = "web" }
        annotations = { "prometheus.io/scrape" = "true" }
      }
      spec {
        service_account_name             = "runner"
        automount_service_account_token  = false
        enable_service_links             = false
        termination_grace_period_seconds = 45
        priority_class_name              = "shop-high"
        host_network                     = false
        dns_policy                       = "ClusterFirst"
        hostname                         = "full"
        subdomain                        = "pods"
        share_process_namespace          = true
        node_selector                    = { disk = "ssd" }
        dns_config {
          nameservers = ["10.0.0.10"]
          searches    = ["shop.local"]
          option {
            name  = "ndots"
            value = "2"
          }
        }
        host_aliases {
          ip        = "10.1.2.3"
          hostnames = ["db.local", "cache.local"]
        }
        image_pull_secrets {
          name = "registry"
        }
        readiness_gate {
          condition_type = "example.com/ready"
        }
        security_context {
          fs_group            = "2000"
          run_as_user         = "1000"
          run_as_group        = "3000"
          run_as_non_root     = true
          supplemental_groups = [4000, 5000]
          se_linux_options {
            level = "s0:c123,c456"
          }
          sysctl {
            name  = "net.ipv4.ip_local_port_range"
            value = "1024 65535"
          }
        }
        affinity {
          node_affinity {
            required_during_scheduling_ignored_during_execution {
              node_selector_term {
                match_expressions {
                  key      = "zone"
                  operator = "In"
                  values   = ["a", "b"]
                }
              }
            }
            preferred_during_scheduling_ignored_during_execution {
              weight = 10
              preference {
                match_expressions {
                  key      = "gpu"
                  operator = "DoesNotExist"
                }
              }
            }
          }
          pod_anti_affinity {
            preferred_during_scheduling_ignored_during_execution {
              weight = 100
              pod_affinity_term {
                topology_key = "kubernetes.io/hostname"
                namespaces   = ["shop"]
                label_selector {
                  match_labels = { app = "full" }
                }
              }
            }
          }
          pod_affinity {
            required_during_scheduling_ignored_during_execution {
              topology_key = "zone"
              label_selector {
                match_labels = { app = "cache" }
              }
            }
          }
        }
        toleration {
          key      = "dedicated"
          operator = "Equal"
          value    = "shop"
          effect   = "NoSchedule"
        }
        toleration {
          key                = "node.kubernetes.io/not-ready"
          operator           = "Exists"
          effect             = "NoExecute"
          toleration_seconds = "30"
        }
        init_container {
          name    = "migrate"
          image   = "busybox:1.36"
          command = ["sh", "-c", "true"]
        }
        container {
          name              = "web"
          image             = "nginx:1.27"
          image_pull_policy = "IfNotPresent"
          command           = ["nginx"]
          args              = ["-g", "daemon off;"]
          working_dir       = "/srv"
          tty               = true
          port {
            name           = "http"
            container_port = 8080
          }
          port {
            name           = "metrics"
            container_port = 9090
            host_port      = 9090
            host_ip        = "10.0.0.1"
          }
          env {
            name  = "MODE"
            value = "production"
          }
          env {
            name  = "EMPTY"
            value = ""
          }
          env {
            name = "TOKEN"
            value_from {
              secret_key_ref {
                name     = "credentials"
                key      = "token"
                optional = true
              }
            }
          }
          env {
            name = "NODE"
            value_from {
              field_ref {
                field_path = "spec.nodeName"
              }
            }
          }
          env {
            name = "CPU"
            value_from {
              resource_field_ref {
                container_name = "web"
                resource       = "limits.cpu"
              }
            }
          }
          env_from {
            prefix = "CONF_"
            config_map_ref {
              name = "settings"
            }
          }
          env_from {
            secret_ref {
              name     = "credentials"
              optional = false
            }
          }
          resources {
            limits {
              cpu    = "1500m"
              memory = "512Mi"
            }
            requests {
              cpu    = "0.5"
              memory = "256Mi"
            }
          }
          security_context {
            allow_privilege_escalation = false
            read_only_root_filesystem  = true
            privileged                 = false
            run_as_user                = "1001"
            capabilities {
              add  = ["NET_BIND_SERVICE"]
              drop = ["ALL"]
            }
          }
          liveness_probe {
            http_get {
              path = "/healthz"
              port = "http"
              http_header {
                name  = "X-Probe"
                value = "1"
              }
            }
            initial_delay_seconds = 3
            period_seconds        = 7
          }
          readiness_probe {
            tcp_socket {
              port = "8080"
            }
          }
          startup_probe {
            exec {
              command = ["true"]
            }
            failure_threshold = 30
          }
          lifecycle {
            pre_stop {
              exec {
                command = ["sleep", "5"]
              }
            }
            post_start {
              http_get {
                path = "/hook"
                port = "8080"
              }
            }
          }
          volume_mount {
            name       = "config"
            mount_path = "/etc/app"
            read_only  = true
          }
          volume_mount {
            name              = "cache"
            mount_path        = "/cache"
            sub_path          = "web"
            mount_propagation = "HostToContainer"
          }
        }
        container {
          name  = "sidecar"
          image = "envoy:v1"
          liveness_probe {
            tcp_socket {
              port = 9000
            }
          }
          resources {}
        }
        volume {
          name = "config"
          config_map {
            name         = "settings"
            default_mode = "0644"
            items {
              key  = "app.conf"
              path = "app.conf"
              mode = "0600"
            }
          }
        }
        volume {
          name = "cache"
          empty_dir {
            medium     = "Memory"
            size_limit = "64Mi"
          }
        }
        volume {
          name = "scratch"
          empty_dir {}
        }
        volume {
          name = "creds"
          secret {
            secret_name = "credentials"
            optional    = true
          }
        }
        volume {
          name = "host"
          host_path {
            path = "/var/log"
            type = "Directory"
          }
        }
        volume {
          name = "all"
          projected {
            default_mode = "0440"
            sources {
              config_map {
                name = "settings"
              }
            }
            sources {
              service_account_token {
                path               = "token"
                expiration_seconds = 3600
                audience           = "vault"
              }
            }
            sources {
              downward_api {
                items {
                  path = "labels"
                  field_ref {
                    field_path = "metadata.labels"
                  }
                }
              }
            }
          }
        }
        volume {
          name = "claim"
          persistent_volume_claim {
            claim_name = "data"
            read_only  = true
          }
        }
        volume {
          name = "nfs"
          nfs {
            server = "nfs.local"
            path   = "/export"
          }
        }
      }
    }
  }
}

resource "kubernetes_deployment" "plain" {
  count            = lookup(var.copies, "kubernetes_deployment.plain", 1)
  wait_for_rollout = false
  metadata {
    name      = "plain-${count.index}"
    namespace = local.ns
  }
  spec {
    selector {
      match_labels = { app = "plain" }
    }
    template {
      metadata {
        labels = { app = "plain" }
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

resource "kubernetes_stateful_set" "db" {
  count            = lookup(var.copies, "kubernetes_stateful_set.db", 1)
  wait_for_rollout = false
  metadata {
    name      = "db-${count.index}"
    namespace = local.ns
  }
  spec {
    service_name          = "db"
    replicas              = 2
    pod_management_policy = "Parallel"
    selector {
      match_labels = { app = "db" }
    }
    update_strategy {
      type = "RollingUpdate"
      rolling_update {
        partition = 1
      }
    }
    template {
      metadata {
        labels = { app = "db" }
      }
      spec {
        container {
          name  = "db"
          image = "postgres:15"
        }
      }
    }
    volume_claim_template {
      metadata {
        name = "data"
      }
      spec {
        access_modes       = ["ReadWriteOnce"]
        storage_class_name = "fast"
        resources {
          requests = { storage = "10Gi" }
        }
      }
    }
  }
}

resource "kubernetes_stateful_set" "bare" {
  count            = lookup(var.copies, "kubernetes_stateful_set.bare", 1)
  wait_for_rollout = false
  metadata {
    name      = "bare-${count.index}"
    namespace = local.ns
  }
  spec {
    service_name = "bare"
    selector {
      match_labels = { app = "bare" }
    }
    template {
      metadata {
        labels = { app = "bare" }
      }
      spec {
        container {
          name  = "db"
          image = "postgres:15"
        }
      }
    }
  }
}

resource "kubernetes_daemonset" "agent" {
  count = lookup(var.copies, "kubernetes_daemonset.agent", 1)
  metadata {
    name      = "agent-${count.index}"
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

resource "kubernetes_job" "once" {
  count               = lookup(var.copies, "kubernetes_job.once", 1)
  wait_for_completion = false
  metadata {
    name      = "once-${count.index}"
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

resource "kubernetes_replication_controller" "web" {
  count = lookup(var.copies, "kubernetes_replication_controller.web", 1)
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
