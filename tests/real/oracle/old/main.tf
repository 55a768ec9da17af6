terraform {
  required_providers {
    kubernetes = { source = "hashicorp/kubernetes", version = "1.13.4" }
  }
}

provider "kubernetes" {
  config_path = var.kubeconfig
}

variable "kubeconfig" {
  type = string
}

# How many there are of each resource, so that as many edits of it share a plan.
variable "copies" {
  type    = map(number)
  default = {}
}
