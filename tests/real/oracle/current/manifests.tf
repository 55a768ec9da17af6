resource "kubernetes_manifest" "extra" {
  count = lookup(var.copies, "kubernetes_manifest.extra", 1)
  field_manager {
    force_conflicts = true
  }
  manifest = {
    apiVersion = "v1"
    kind       = "ConfigMap"
    metadata   = { name = "manifest-${count.index}", namespace = "default", labels = { a = "b" } }
    data       = { k = var.changed ? "changed" : "v" }
  }
}

resource "kubernetes_manifest" "widget" {
  count = lookup(var.copies, "kubernetes_manifest.widget", 1)
  field_manager {
    force_conflicts = true
  }
  manifest = {
    apiVersion = "example.com/v1"
    kind       = "Widget"
    metadata   = { name = "widget-${count.index}", namespace = "default" }
    spec = {
      size   = 3
      tags   = var.changed ? ["a", "b", "c"] : ["a", "b"]
      labels = { x = "y" }
      target = "50%"
      nested = { a = "1" }
      parts  = [{ name = "p", size = 1 }]
    }
  }
}

resource "kubernetes_manifest" "deployment" {
  count = lookup(var.copies, "kubernetes_manifest.deployment", 1)
  field_manager {
    force_conflicts = true
  }
  manifest = {
    apiVersion = "apps/v1"
    kind       = "Deployment"
    metadata   = { name = "manifest-${count.index}", namespace = "default" }
    spec = {
      replicas = var.changed ? 5 : 2
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

# What it does not declare, the server and others may.
resource "kubernetes_manifest" "policy" {
  count = lookup(var.copies, "kubernetes_manifest.policy", 1)
  field_manager {
    force_conflicts = true
  }
  manifest = {
    apiVersion = "networking.k8s.io/v1"
    kind       = "NetworkPolicy"
    metadata   = { name = "manifest-${count.index}", namespace = "default", annotations = { note = "x" } }
    spec = {
      podSelector = {}
      ingress = [{
        from  = [{ namespaceSelector = {} }, { ipBlock = { cidr = "10.0.0.0/8", except = ["10.1.0.0/16"] } }]
        ports = [{ port = 80, protocol = "TCP" }, { port = "http", protocol = "TCP" }]
      }]
    }
  }
}

resource "kubernetes_manifest" "service" {
  count           = lookup(var.copies, "kubernetes_manifest.service", 1)
  computed_fields = ["spec.selector"]
  field_manager {
    force_conflicts = true
  }
  manifest = {
    apiVersion = "v1"
    kind       = "Service"
    metadata   = { name = "manifest-${count.index}", namespace = "default", labels = { a = "b" } }
    spec = {
      selector = { app = "manifest" }
      ports = [
        { name = "http", port = 80, protocol = "TCP", targetPort = "http" },
        { name = "dns", port = 53, protocol = "UDP", targetPort = 5353 },
      ]
    }
  }
}

# A kind whose fields its schema does not all tell.
resource "kubernetes_manifest" "loose" {
  count = lookup(var.copies, "kubernetes_manifest.loose", 1)
  field_manager {
    force_conflicts = true
  }
  manifest = {
    apiVersion = "example.com/v1"
    kind       = "Loose"
    metadata   = { name = "loose-${count.index}", namespace = "default", labels = { a = "b" } }
    spec = {
      size  = 3
      free  = { a = "1", deep = { list = ["x", "y"], on = true } }
      ports = [{ name = "http", port = 80 }, { name = "dns", port = 53, protocol = "UDP" }]
      hosts = ["a", "b"]
    }
  }
}
