"""The study of surrogate losses: which loss to minimise while training for which loss in the
end.
"""
