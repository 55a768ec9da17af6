terraform {
  required_providers {
    kubernetes = { source = "hashicorp/kubernetes", version = "3.2.1" }
  }
}

provider "kubernetes" {
  config_path = var.kubeconfig
}

variable "kubeconfig" {
  type = string
}

variable "copies" {
  type    = number
  default = 1
}
